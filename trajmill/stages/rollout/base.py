"""Attempts, the limits of an episode, and finished attempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.agents.base import Agent
from trajmill.stages.environments.pool.pool import EnvironmentLimits


@dataclass(frozen=True, slots=True)
class Attempt:
    """One planned attempt at a query."""

    query: Query
    purpose: Purpose
    attempt: int
    """0 for the first attempt of its round, purpose and query."""
    seed: int
    """Decides variations of the start state, faults and sampling; equal seeds give equal episodes."""
    guidance: Guidance | None = None

    def trajectory_id(self, agent: Agent) -> str:
        """The id of its trajectory."""
        guidance_id = self.guidance.guidance_id if self.guidance else None
        return Trajectory.make_id(
            self.query.query_id, agent.name, agent.model_version, self.purpose, guidance_id, self.seed, self.attempt
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one episode; the bound on steps is a field of the query."""

    seconds: float = 600.0
    """Most seconds of the whole episode."""
    tokens: int = 1_000_000
    """Most input and output tokens of all its model calls."""
    environment_tries: int = 3
    """Most tries before an environment failure is final; each further try has a fresh instance."""
    environment: EnvironmentLimits = field(default_factory=EnvironmentLimits)
    """Bounds of single calls of the environment."""


@dataclass(frozen=True, slots=True)
class FinishedAttempt:
    """A finished attempt: the episode, its distinct screens, and its failure if it is void."""

    episode: Episode
    screens: dict[str, Observation] = field(default_factory=dict)
    """The observations, by screen id."""
    failure: Failure | None = None
    """The failure of a void attempt, with the number of tries; else None."""
    earlier_failure: Failure | None = None
    """The failure of the tries before the last one, with their number; None if there was one try."""


class AttemptSource(Protocol):
    """Gives attempts one by one, to whichever slot is free."""

    async def take(self) -> Attempt | None:
        """The next attempt; None if there is none left."""
        ...


Recorder = Callable[[FinishedAttempt], Awaitable[None]]
"""Stores a finished attempt; it is awaited before the next attempt starts in its place."""
