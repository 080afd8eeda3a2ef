"""The protocol of an environment: one per platform, used by one episode at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from trajmill.schemas.actions import Action
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query


class Environment(Protocol):
    """A phone, a desktop or a browser that an agent can act in."""

    @property
    def platform(self) -> Platform:
        """The platform, which decides the actions that it understands."""
        ...

    @property
    def name(self) -> str:
        """Its name on trajectories: simulated, miniwob, ..."""
        ...

    async def reset(self, query: Query, seed: int) -> Observation:
        """Prepare the start state of a query; equal seeds give equal episodes.

        Raises:
            EnvironmentFailure: the start state cannot be reached (class `setup`).
        """
        ...

    async def step(self, action: Action) -> Observation:
        """Do one action and wait until the screen stops changing.

        `Terminate` and `Answer` change nothing on the screen; with them the agent ends the episode.

        Raises:
            EnvironmentFailure: it crashed or hangs; the episode is void.
        """
        ...

    async def score(self) -> float | None:
        """The result in [0, 1] of the programmatic check for the query of the last reset; None without a check."""
        ...

    async def close(self) -> None:
        """Free everything; closing twice is fine."""
        ...


@runtime_checkable
class HealthChecked(Protocol):
    """An environment that can say whether it is usable, before it is leased again; others always count as usable."""

    async def healthy(self) -> bool:
        """Whether a reset can succeed; this is cheap, and an error gives False."""
        ...


@runtime_checkable
class Confined(Protocol):
    """An environment that lets its apps reach only some addresses."""

    @property
    def refused(self) -> tuple[str, ...]:
        """The addresses that were asked for since the last reset and refused."""
        ...


class Belongings(NamedTuple):
    """What must be removed if an environment's `close` hangs or its worker is killed."""

    process_ids: tuple[int, ...] = ()
    """Processes that it has started; each is ended with all its descendants."""
    folders: tuple[Path, ...] = ()
    """Temporary folders."""


@runtime_checkable
class Owner(Protocol):
    """An environment or a factory that has started processes."""

    def belongings(self) -> Belongings:
        """Its processes and temporary folders now."""
        ...


class EnvironmentFactory(Protocol):
    """Makes fresh environments for a pool; picklable."""

    async def __call__(self) -> Environment:
        """Start one environment and return it when it is ready.

        Raises:
            EnvironmentFailure: it does not start (class `setup`).
        """
        ...

    async def close(self) -> None:
        """Free the things that its environments share, e.g. a browser; closing twice is fine."""
        ...


class GoalDistances(Protocol):
    """Measures stored episodes by the hidden state of their environment; only calibration reads it, never a critic."""

    def __call__(self, episode: Episode, /) -> Sequence[int | None] | None:
        """The fewest actions to the goal, before each step and after the last one.

        None in the list: the goal can no longer be reached. None for the list: it cannot be measured.
        """
        ...


@runtime_checkable
class MeasuresDistance(Protocol):
    """The spec of an environment whose state gives the distance to a goal."""

    def goal_distances(self) -> GoalDistances:
        """What measures its stored episodes."""
        ...
