"""The protocol of an environment: one per platform, used by one episode at a time."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from trajmill.schemas.actions import Action
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query


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
            EnvironmentFailure: of class `setup` if the start state cannot be reached.
        """
        ...

    async def step(self, action: Action) -> Observation:
        """Do one action and wait until the screen has settled.

        `Terminate` and `Answer` change nothing on the screen; they say that the agent is done.

        Raises:
            EnvironmentFailure: it crashed or hangs; the episode is void.
        """
        ...

    async def score(self) -> float | None:
        """The programmatic check in [0, 1] for the query of the last reset; None where there is none."""
        ...

    async def close(self) -> None:
        """Free everything; closing twice is fine."""
        ...


@runtime_checkable
class HealthChecked(Protocol):
    """An environment that can tell, before it is lent out again, whether it is fit; any other is taken to be."""

    async def healthy(self) -> bool:
        """Whether a reset has a chance; cheap, and false rather than an error."""
        ...


class Belongings(NamedTuple):
    """What is left of an environment where its `close` hangs, or its worker is killed."""

    process_ids: tuple[int, ...] = ()
    """Processes that it has started, each to be ended with all that descends from it."""
    folders: tuple[Path, ...] = ()
    """Temporary folders."""


@runtime_checkable
class Owner(Protocol):
    """An environment, or a factory for what its environments share, that has started processes."""

    def belongings(self) -> Belongings:
        """What belongs to it at present."""
        ...


class EnvironmentFactory(Protocol):
    """Makes fresh environments for a pool; picklable."""

    async def __call__(self) -> Environment:
        """Start one environment and return it when it is ready.

        Raises:
            EnvironmentFailure: of class `setup`.
        """
        ...

    async def close(self) -> None:
        """Free what its environments share (a browser, a server); closing twice is fine."""
        ...
