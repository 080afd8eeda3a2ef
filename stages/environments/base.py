"""The protocol of an environment: one per platform, used by one episode at a time."""

from __future__ import annotations

from typing import Protocol

from schemas.actions import Action
from schemas.observation import Observation
from schemas.query import Platform, Query


class Environment(Protocol):
    """A phone, a desktop or a browser that an agent can act in."""

    @property
    def platform(self) -> Platform:
        """Which action space it understands."""
        ...

    @property
    def name(self) -> str:
        """Kind of environment as it stands on trajectories: simulated, miniwob, ..."""
        ...

    async def reset(self, query: Query, seed: int) -> Observation:
        """Bring it into the start state of a query; equal seeds give equal episodes.

        Raises:
            schemas.errors.EnvironmentFailure: of class `setup` if the start state cannot be reached.
        """
        ...

    async def step(self, action: Action) -> Observation:
        """Do one action and wait until the screen has settled.

        `Terminate` and `Answer` change nothing on the screen; they say that the agent is done.

        Raises:
            schemas.errors.EnvironmentFailure: it crashed or hangs; the episode is void.
        """
        ...

    async def score(self) -> float | None:
        """The programmatic check in [0, 1] for the query of the last reset; None where there is none."""
        ...

    async def close(self) -> None:
        """Free everything; closing twice is fine."""
        ...


class EnvironmentFactory(Protocol):
    """Makes fresh environments for a pool; picklable."""

    async def __call__(self) -> Environment:
        """Start one environment and return it when it is ready.

        Raises:
            schemas.errors.EnvironmentFailure: of class `setup`.
        """
        ...

    async def close(self) -> None:
        """Free what its environments share (a browser, a server); closing twice is fine."""
        ...
