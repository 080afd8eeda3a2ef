"""The protocol of an agent: it sees a screen and decides on one action."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from trajmill.schemas.actions import Action
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Query
from trajmill.stages.models.base import ChatModel, ChatRequest, Completion, ReplyTokens


@dataclass(frozen=True, slots=True)
class AgentCall:
    """One model call of a decision, to be accounted."""

    request: ChatRequest
    completion: Completion | None
    """None when the call failed."""
    latency_ms: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What an agent decided at one screen."""

    thought: str
    action: Action | None
    """None when the reply was no action; the episode counts it as a step without effect."""
    conclusion: str
    """What is kept of this step in the history."""
    raw_response: str = ""
    prompt: str = ""
    """The user text of the prompt without guidance; empty for an agent without a model."""
    role_outputs: dict[str, str] = field(default_factory=dict)
    calls: tuple[AgentCall, ...] = ()
    reply_tokens: ReplyTokens | None = None
    """Of `raw_response`, where they were asked for and given."""


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """All that an agent may know: never the query's path, slots or goal."""

    instruction: str
    guidance: str | None
    observation: Observation
    history: tuple[Decision, ...]
    """Its own decisions so far, oldest first."""
    seed: int
    """Seed of the episode."""
    past_observations: tuple[Observation, ...] = ()
    """The observation before each of those decisions."""


class Agent(Protocol):
    """Decides on the next action; keeps no state between episodes."""

    @property
    def name(self) -> str:
        """Name as it stands on trajectories: explorer, end_to_end, reference."""
        ...

    @property
    def model_version(self) -> str:
        """Version of the policy behind it."""
        ...

    async def act(self, episode: EpisodeView) -> Decision:
        """Decide on the next action.

        Raises:
            ModelFailure: its model did not answer.
        """
        ...


class AgentMaker(Protocol):
    """Gives the agent for an attempt (the reference agent needs the query's path)."""

    def __call__(self, query: Query) -> Agent:
        """Return the agent that is to work on `query`."""
        ...


class AgentModel(NamedTuple):
    """The model that agents ask, and how they ask it."""

    model: ChatModel
    family: Family
    """The wire format of the model's actions."""
    temperature: float
    """0 acts greedily."""
    with_tokens: bool = False
    """Whether the tokens of its replies are asked for."""
