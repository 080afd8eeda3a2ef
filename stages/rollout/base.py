"""Attempts, the limits of an episode, and finished attempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.agents.base import Agent
from trajmill.stages.environments.pool.leased import EnvironmentLimits


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a query that is to be made."""

    query: Query
    purpose: Purpose
    attempt: int
    """0 for the first attempt of its round, purpose and query."""
    seed: int
    """Decides start state variation, faults and sampling; equal seeds give equal episodes."""
    guidance: Guidance | None = None

    def trajectory_id(self, agent: Agent) -> str:
        """The id its trajectory will have."""
        guidance_id = self.guidance.guidance_id if self.guidance else None
        return Trajectory.make_id(
            self.query.query_id, agent.name, agent.model_version, self.purpose, guidance_id, self.seed, self.attempt
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one episode; the step limit stands on the query."""

    seconds: float = 600.0
    """Wall time of the whole episode."""
    tokens: int = 1_000_000
    """Input and output tokens of all its model calls."""
    environment_tries: int = 3
    """Environments to try, each on a fresh instance but the first, before an environment failure is final."""
    environment: EnvironmentLimits = field(default_factory=EnvironmentLimits)
    """Bounds of its single calls."""


@dataclass(frozen=True, slots=True)
class FinishedAttempt:
    """A finished attempt: the episode, the distinct screens it saw, and its failure if it is void."""

    episode: Episode
    screens: dict[str, Observation] = field(default_factory=dict)
    """By screen id."""
    failure: Failure | None = None
    """Why it is void, with the number of tries; None if it is not."""
    earlier_failure: Failure | None = None
    """The failure of the earlier tries, with their number; None if the first try counts."""


Recorder = Callable[[FinishedAttempt], Awaitable[None]]
"""Puts a finished attempt on disk; awaited before the next attempt starts in its place."""
