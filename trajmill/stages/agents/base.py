"""The protocol of an agent: it sees a screen and decides on one action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from trajmill.schemas.actions import Action
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Query
from trajmill.stages.models.base import ChatModel, ChatRequest, Completion, ReplyTokens


@dataclass(frozen=True, slots=True)
class AgentCall:
    request: ChatRequest
    completion: Completion | None
    latency_ms: float
    error: str | None = None
    model_version: str = ""
    """Version of the model that was asked, if it is not the agent's own."""
    malformed: str = ""
    """Why the reply is not what the role was asked for; empty if it is."""


@dataclass(frozen=True, slots=True)
class Decision:
    thought: str
    action: Action | None
    """None if the reply could not be parsed; the episode counts it as a step without effect."""
    conclusion: str
    """The text that the history keeps of this step."""
    raw_response: str = ""
    prompt: str = ""
    """The user text of the prompt without guidance; empty for an agent without a model."""
    role_outputs: dict[str, str] = field(default_factory=dict)
    calls: tuple[AgentCall, ...] = ()
    reply_tokens: ReplyTokens | None = None
    """The tokens of `raw_response`, if they were asked for and given."""


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """What an agent may see; the query's path, slots and goal are left out."""

    instruction: str
    guidance: str | None
    observation: Observation
    history: tuple[Decision, ...]
    """The agent's decisions so far, oldest first."""
    seed: int
    past_observations: tuple[Observation, ...] = ()
    """The observation before each of those decisions."""


class Agent(Protocol):
    """Decides on the next action; keeps no state between episodes."""

    @property
    def name(self) -> str:
        """Its name on trajectories: explorer, end_to_end, mobile_agent_v3, ..."""

    @property
    def model_version(self) -> str: ...

    async def act(self, episode: EpisodeView) -> Decision:
        """Raise ModelFailure if its model did not answer, and AgentStopped if it makes no further step."""


class AgentStopped(Exception):
    """Whoever drives the agent makes no further step: a limit of theirs is reached."""


AgentMaker = Callable[[Query], Agent]
"""Gives the agent for an attempt (the reference agent needs the query's path)."""


class AgentModel(NamedTuple):
    """The policy's model as an agent calls it, and the models of the agent's further roles by name."""

    model: ChatModel
    family: Family
    """The wire format of the model's actions."""
    temperature: float
    with_tokens: bool = False
    roles: Mapping[str, ChatModel] = MappingProxyType({})
    """The models of the agent's further roles; a role that is missing is embedded, or the policy."""
    families: Mapping[str, Family] = MappingProxyType({})
    """How the models of further roles are asked, for roles that act."""
