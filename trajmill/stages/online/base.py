"""The records of an online episode: the trainer's request, what it is shown, and the result."""

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
"""Name of the agent on trajectories whose steps a trainer decided."""


class EpisodeOrder(NamedTuple):
    """The episode that a trainer asks for."""

    query_id: str | None = None
    """The query; None chooses one by the seed."""
    seed: int | None = None
    """The seed; None takes the next one."""
    policy: str = AGENT
    """The version of the trainer's policy for the rows."""
    record: bool = True
    """Whether the server stores the episode; a client that stores it itself says no."""


class ShownStep(NamedTuple):
    """What a trainer is shown before it decides on the next step."""

    observation: Observation
    steps: int
    """Number of steps so far."""
    messages: tuple[ChatMessage, ...]
    """The prompt for the trainer's family."""
    error: str
    """Why the last reply was no action; empty if it was one."""


class AttemptVerdicts(NamedTuple):
    """The result of judging a finished attempt."""

    episode: Episode
    """The episode, with verdicts if it could be judged."""
    calls: tuple[ModelCall, ...] = ()
    failures: tuple[Failure, ...] = ()
    """Why it could not be judged; empty if it could."""

    @property
    def reward(self) -> float | None:
        """1 for a correct attempt, 0 for an incorrect one, None if it could not be judged."""
        return None if self.episode.judgement is None else float(self.episode.judgement.correct)


class EndedEpisode(NamedTuple):
    """A finished episode."""

    attempt: FinishedAttempt
    reward: float | None
    """None if the episode is void, or there is neither a check nor a judgement."""

    @property
    def failure(self) -> str:
        """Why it is void; empty if it is not."""
        return self.attempt.failure.message if self.attempt.failure else ""

    @property
    def last(self) -> Observation | None:
        """The last observation; None without any."""
        steps = self.attempt.episode.steps
        seen = self.attempt.screens
        return seen[steps[-1].screen_after] if steps else next(iter(seen.values()), None)


JudgeAttempt = Callable[[FinishedAttempt], Awaitable[AttemptVerdicts]]
RecordAttempt = Callable[[FinishedAttempt, AttemptVerdicts | None], Awaitable[None]]
"""Stores an attempt with its verdicts; it is awaited before the trainer gets the reward."""
