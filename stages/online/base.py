"""What a trainer asks for, what it is shown, and what comes of its episode."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.models.base import ChatMessage
from trajmill.stages.rollout.base import FinishedAttempt

AGENT = "online"
"""Name of the agent on trajectories that a trainer has stepped."""


class EpisodeOrder(NamedTuple):
    """The episode that a trainer asks for."""

    query_id: str | None = None
    """None takes a query by the seed."""
    seed: int | None = None
    """None takes the next one."""
    policy: str = AGENT
    """The version of the trainer's policy, as it will stand on the rows."""
    record: bool = True
    """Whether the episode becomes rows; whoever records it themselves asks not to."""


class ShownStep(NamedTuple):
    """What the next step of an episode is decided on."""

    observation: Observation
    steps: int
    """Steps so far."""
    messages: tuple[ChatMessage, ...]
    """The prompt of the trainer's family."""
    error: str
    """Why the last reply was no action; empty where it was one."""


class AttemptVerdicts(NamedTuple):
    """What the judge made of a finished attempt."""

    episode: Episode
    """With its verdicts, where it could be judged."""
    calls: tuple[ModelCall, ...] = ()
    failures: tuple[Failure, ...] = ()
    """Why it could not be judged."""

    @property
    def reward(self) -> float | None:
        """1 for a correct one, 0 for an incorrect one, None where it could not be judged."""
        return None if self.episode.judgement is None else float(self.episode.judgement.correct)


class EndedEpisode(NamedTuple):
    """An episode that is over."""

    attempt: FinishedAttempt
    reward: float | None
    """None for a void one, and where there is neither a check nor a judgement."""

    @property
    def failure(self) -> str:
        """Why it is void; empty if it is not."""
        return self.attempt.failure.message if self.attempt.failure else ""

    @property
    def last(self) -> Observation | None:
        """What was seen last; None where nothing was."""
        steps = self.attempt.episode.steps
        seen = self.attempt.screens
        return seen[steps[-1].screen_after] if steps else next(iter(seen.values()), None)


JudgeAttempt = Callable[[FinishedAttempt], Awaitable[AttemptVerdicts]]
RecordAttempt = Callable[[FinishedAttempt, AttemptVerdicts | None], Awaitable[None]]
"""Puts an attempt with its verdicts on disk; awaited before its trainer is told the reward."""
