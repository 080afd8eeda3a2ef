"""A leased environment: every call has a time limit, and every call after the end of the lease fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass, StageError, TrajmillError
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import Confined, Environment

T = TypeVar("T")


class EnvironmentLimits(NamedTuple):
    """Bounds on the use of one instance; a call that takes longer counts as hanging, and the instance is replaced."""

    start_seconds: float = 300.0
    reset_seconds: float = 180.0
    step_seconds: float = 30.0
    score_seconds: float = 60.0
    close_seconds: float = 20.0
    lease_seconds: float = 3600.0
    """Time after which a lease is ended if it was not given back."""
    recycle_after: int = 1000
    """Most leases of one instance."""


class LeasedEnvironment:
    """Passes calls to an environment with time limits; every error in them becomes an `EnvironmentFailure`."""

    def __init__(self, environment: Environment, limits: EnvironmentLimits) -> None:
        self.fit = True
        """Whether the instance may be leased again."""
        self._environment = environment
        self._limits = limits
        self._over = False
        self._under_way: asyncio.Timeout | None = None
        self._due = 0.0
        """When the call that is under way is too late, by the event loop's clock."""
        self._look: asyncio.TimerHandle | None = None

    @property
    def platform(self) -> Platform:
        """The environment's platform."""
        return self._environment.platform

    @property
    def name(self) -> str:
        """The environment's name."""
        return self._environment.name

    @property
    def refused(self) -> tuple[str, ...]:
        """The addresses that a confined environment has refused."""
        return self._environment.refused if isinstance(self._environment, Confined) else ()

    async def reset(self, query: Query, seed: int) -> Observation:
        """Reset the environment; a hanging reset is a failure of class `setup`."""
        limit = self._limits.reset_seconds
        return await self._call(lambda: self._environment.reset(query, seed), limit, "reset", FailureClass.SETUP)

    async def step(self, action: Action) -> Observation:
        """Do one action."""
        return await self._call(lambda: self._environment.step(action), self._limits.step_seconds, "step")

    async def score(self) -> float | None:
        """The programmatic check."""
        return await self._call(self._environment.score, self._limits.score_seconds, "score")

    async def close(self) -> None:
        """End the lease; the pool closes the instance."""
        self.fit = False
        self.end()

    def end(self) -> None:
        """End the lease: the running call fails, and so does every later one."""
        self._over = True
        self._look_at(None)
        if self._under_way is not None:
            self._under_way.reschedule(0.0)

    async def _call(
        self,
        work: Callable[[], Awaitable[T]],
        seconds: float,
        call: str,
        failure_class: FailureClass = FailureClass.ENVIRONMENT,
    ) -> T:
        if self._over:
            raise EnvironmentFailure(f"{self.name}: a {call} after the end of the lease")
        # Unusable until the call has succeeded, because it may be cancelled at any time.
        fit, self.fit = self.fit, False
        try:
            async with asyncio.timeout(None) as self._under_way:
                self._limit(seconds)
                result = await work()
        except TrajmillError as error:
            # A task with a wrong check says nothing about the instance.
            self.fit = fit and isinstance(error, StageError) and error.failure_class is FailureClass.TASK
            raise
        except Exception as error:
            raise EnvironmentFailure(f"{self.name}: {self._text(call, seconds, error)}", failure_class) from error
        finally:
            self._under_way = None
        self.fit = fit
        return result

    def _limit(self, seconds: float) -> None:
        """Limit the call that is under way; a timer of its own for each call would cost more than the rest of it."""
        self._due = asyncio.get_running_loop().time() + seconds
        if self._look is None or self._look.when() > self._due:
            self._look_at(self._due)

    def _look_at(self, when: float | None) -> None:
        if self._look is not None:
            self._look.cancel()
        self._look = None if when is None else asyncio.get_running_loop().call_at(when, self._end_if_late)

    def _end_if_late(self) -> None:
        self._look = None
        if self._under_way is None:
            return
        if asyncio.get_running_loop().time() < self._due:
            self._look_at(self._due)
        else:
            self._under_way.reschedule(self._due)

    def _text(self, call: str, seconds: float, error: Exception) -> str:
        if self._over:
            return f"a {call} was under way at the end of the lease"
        return error_text(error, f"a {call}", seconds)


def error_text(error: Exception, call: str, seconds: float) -> str:
    """One line about a call that has raised an error or exceeded its time limit."""
    if isinstance(error, TimeoutError) and not str(error):
        return f"{call} did not end within {seconds:g} s"
    return f"{call} raised {type(error).__name__}: {' '.join(str(error).split())}"
