"""The protocol of an environment: one per platform, used by one episode at a time."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from trajmill.schemas.actions import Action
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.tables.query import Platform, Query

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
AWAY = (502, 503, 504)
"""The answers of a gateway whose server is away."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0


class Environment(Protocol):
    @property
    def platform(self) -> Platform: ...

    @property
    def name(self) -> str: ...

    async def reset(self, query: Query, seed: int) -> Observation:
        """Prepare a query's start state, equal for equal seeds; raises EnvironmentFailure (`setup`) if it cannot."""
        ...

    async def step(self, action: Action) -> Observation:
        """Do one action and wait until the screen stops changing.

        `Terminate` and `Answer` change nothing on the screen; with them the agent ends the episode. Raises
        EnvironmentFailure if it crashed or hangs; the episode is void.
        """
        ...

    async def score(self) -> float | None:
        """Return the result in [0, 1] of the programmatic check for the last query; None without a check."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Restorable(Protocol):
    """An environment whose state can be copied exactly; in others, an attempt's actions are done again."""

    async def snapshot(self) -> object | None:
        """Copy the state of the episode for any environment of the same factory; None if it cannot be copied."""
        ...

    async def restore(self, snapshot: object) -> Observation | None:
        """Continue from a copied state, which later steps do not change; raises EnvironmentFailure if it cannot.

        None, with nothing done, if another device has the copy, or it is no longer kept.
        """
        ...


@runtime_checkable
class ComparesState(Protocol):
    """An environment that compares its state with that at the start; no agent and no judge gets the result."""

    async def side_effects(self) -> tuple[str, ...] | None:
        """Return the paths of what changed beyond the last query's goal; None if the goal names no state."""
        ...


@runtime_checkable
class HealthChecked(Protocol):
    """An environment with a health check before it is leased again; others always count as usable."""

    async def healthy(self) -> bool: ...


@runtime_checkable
class Confined(Protocol):
    @property
    def refused(self) -> tuple[str, ...]: ...


class Belongings(NamedTuple):
    """Processes and temporary folders to remove if `close` hangs or the worker is killed."""

    process_ids: tuple[int, ...] = ()
    """Each is ended with all its descendants."""
    folders: tuple[Path, ...] = ()


@runtime_checkable
class Owner(Protocol):
    def belongings(self) -> Belongings: ...


class EnvironmentFactory(Protocol):
    """Makes fresh environments for a pool; picklable."""

    async def __call__(self) -> Environment:
        """Start an environment; raises EnvironmentFailure (`setup`) if it does not start."""
        ...

    async def close(self) -> None: ...


def refuse_without(extra: str, *modules: str) -> None:
    """Raise EnvironmentFailure (`setup`) for the first module of an extra that is not installed."""
    for name in modules:
        if find_spec(name) is None:
            text = f"{name} is not installed; run `pip install 'trajmill[{extra}]'`"
            raise EnvironmentFailure(text, FailureClass.SETUP)


class GoalDistances(Protocol):
    """Measures stored episodes by the hidden state of their environment; only calibration reads it, never a critic."""

    def __call__(self, episode: Episode, /) -> Sequence[int | None] | None:
        """Return the fewest actions to the goal, before each step and after the last one.

        None in the list: the goal can no longer be reached. None for the list: it cannot be measured.
        """
        ...


@runtime_checkable
class MeasuresDistance(Protocol):
    def goal_distances(self) -> GoalDistances: ...


@dataclass(frozen=True)
class Patience:
    """Waits for servers that are away when an episode begins, and logs each once."""

    seconds: float = 90.0
    """Less than a pool gives a reset."""
    _told: set[str] = field(default_factory=set)

    async def outlast(self, server: str, work: Callable[[], Awaitable[T]]) -> T:
        """Repeat work until it no longer raises EnvironmentFailure (`unreachable`), which in the end is one line."""
        pause, since = _FIRST_PAUSE, None
        while True:
            try:
                found = await work()
                self._told.discard(server)
                return found
            except EnvironmentFailure as error:
                if error.failure_class is not FailureClass.UNREACHABLE:
                    raise
                since = since or monotonic()
                left = self.seconds + since - monotonic()
                if left <= 0:
                    text = f"{server} did not answer for {self.seconds:g} s ({error}); start it, or correct its address"
                    raise EnvironmentFailure(f"{text}; then run the same command again", error.failure_class) from error
                if server not in self._told:
                    self._told.add(server)
                    _LOG.warning("%s does not answer (%s); waiting %g s at most", server, error, self.seconds)
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)


def begun(episode: T | None) -> T:
    """Return what a reset has made; raises EnvironmentFailure (`setup`) if there was no reset."""
    if episode is None:
        raise EnvironmentFailure("there was no reset", FailureClass.SETUP)
    return episode


def make_observation(
    png: bytes, size: Size, elements: tuple[UIElement, ...] | None, app: str, identity: object = None
) -> Observation:
    """Make an observation whose screen id hashes the pixels and `identity`, by default the elements."""
    digest = hashlib.blake2b(png, digest_size=12)
    digest.update(repr(elements if identity is None else identity).encode())
    return Observation(ScreenHandle(digest.hexdigest(), size, lambda: png), elements, app)
