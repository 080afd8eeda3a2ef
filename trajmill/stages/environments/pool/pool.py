"""Lease environments to episodes with time limits, replace those that failed, and end all their processes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass, StageError, TrajmillError
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import (
    Belongings,
    ComparesState,
    Confined,
    Environment,
    EnvironmentFactory,
    HealthChecked,
    Owner,
    Restorable,
)
from trajmill.stages.reaper import Reaper, end_processes

T = TypeVar("T")


class EnvironmentLimits(NamedTuple):
    """Bounds on the use of one instance; a call that takes longer counts as hanging, and the instance is replaced."""

    start_seconds: float = 300.0
    reset_seconds: float = 180.0
    step_seconds: float = 30.0
    score_seconds: float = 60.0
    close_seconds: float = 20.0
    lease_seconds: float = 3600.0
    recycle_after: int = 1000

    def with_slow_calls(self, seconds: float) -> EnvironmentLimits:
        """Return them with more time for a reset and a score."""
        return self._replace(reset_seconds=self.reset_seconds + seconds, score_seconds=self.score_seconds + seconds)


class LeasedEnvironment:
    """Passes calls to an environment with time limits; every error in them becomes an `EnvironmentFailure`."""

    def __init__(self, environment: Environment, limits: EnvironmentLimits) -> None:
        self.fit = True
        self._environment = environment
        self._limits = limits
        self._over = False
        self._under_way: asyncio.Timeout | None = None

    @property
    def platform(self) -> Platform:
        return self._environment.platform

    @property
    def name(self) -> str:
        return self._environment.name

    @property
    def refused(self) -> tuple[str, ...]:
        return self._environment.refused if isinstance(self._environment, Confined) else ()

    async def reset(self, query: Query, seed: int) -> Observation:
        limit = self._limits.reset_seconds
        return await self._call(lambda: self._environment.reset(query, seed), limit, "reset", FailureClass.SETUP)

    async def step(self, action: Action) -> Observation:
        return await self._call(lambda: self._environment.step(action), self._limits.step_seconds, "step")

    async def score(self) -> float | None:
        return await self._call(self._environment.score, self._limits.score_seconds, "score")

    async def side_effects(self) -> tuple[str, ...] | None:
        environment = self._environment
        if not isinstance(environment, ComparesState):
            return None
        return await self._call(environment.side_effects, self._limits.score_seconds, "comparison")

    async def snapshot(self) -> object | None:
        environment = self._environment
        if not isinstance(environment, Restorable):
            return None
        return await self._call(environment.snapshot, self._limits.step_seconds, "snapshot")

    async def restore(self, snapshot: object) -> Observation | None:
        environment = self._environment
        if not isinstance(environment, Restorable):
            raise EnvironmentFailure(f"{self.name}: it restores no snapshots", FailureClass.SETUP)
        limit = self._limits.reset_seconds
        return await self._call(lambda: environment.restore(snapshot), limit, "restore", FailureClass.SETUP)

    async def close(self) -> None:
        self.fit = False
        self.end()

    def end(self) -> None:
        self._over = True
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
            async with asyncio.timeout(seconds) as self._under_way:
                result = await work()
        except TrajmillError as error:
            # A task with a wrong check says nothing about the instance.
            self.fit = fit and isinstance(error, StageError) and error.failure_class is FailureClass.TASK
            raise
        except Exception as error:
            ended = f"a {call} was under way at the end of the lease" if self._over else ""
            text = ended or error_text(error, f"a {call}", seconds)
            raise EnvironmentFailure(f"{self.name}: {text}", failure_class) from error
        finally:
            self._under_way = None
        self.fit = fit
        return result


def error_text(error: Exception, call: str, seconds: float) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"{call} did not end within {seconds:g} s"
    return f"{call} raised {type(error).__name__}: {' '.join(str(error).split())}"


@dataclass(eq=False, slots=True)
class _Instance:
    environment: Environment
    leases: int = 0
    ending: asyncio.Task[None] | None = None


class EnvironmentPool:
    """At most `instances` environments of one kind; they are started when they are first needed.

    An instance counts until it is closed; if closing it fails, its processes are killed. An instance is not leased
    again after a call failed, hung or was cancelled, if it is not healthy, or after its number of leases. If another
    instance cannot be started (all machines are in use, the memory is full), the pool continues with its instances.
    """

    def __init__(self, factory: EnvironmentFactory, instances: int, limits: EnvironmentLimits | None = None) -> None:
        self._factory = factory
        self._limits = limits or EnvironmentLimits()
        self._places = asyncio.Semaphore(instances)
        self._idle: list[_Instance] = []
        self._all: set[_Instance] = set()
        self._starting = 0
        self._given_up = 0
        """Places of the semaphore for instances that could not be started while there were others."""
        self._reaper = Reaper()

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[LeasedEnvironment]:
        """Lease an environment for an episode, at most `lease_seconds`; EnvironmentFailure (`setup`) if none starts."""
        instance = await self._fit_instance()
        lease = LeasedEnvironment(instance.environment, self._limits)
        instance.leases += 1

        def take_back() -> None:
            lease.end()
            self._retire(instance)

        expiry = asyncio.get_running_loop().call_later(self._limits.lease_seconds, take_back)
        try:
            yield lease
        finally:
            expiry.cancel()
            lease.end()
            if not lease.fit or instance.leases >= self._limits.recycle_after:
                self._retire(instance)
            elif instance.ending is None:
                self._idle.append(instance)
                self._places.release()

    async def close(self) -> None:
        for _ in self._idle:
            await self._places.acquire()
        self._idle.clear()
        await asyncio.gather(*map(self._retire, self._all))
        shared = _belongings(self._factory)
        await _end_in_time(self._factory.close(), self._limits.close_seconds, shared)
        await asyncio.to_thread(self._reaper.close)

    async def _fit_instance(self) -> _Instance:
        while True:
            await self._places.acquire()
            if not self._idle:
                try:
                    return await self._start()
                except EnvironmentFailure:
                    if not self._all and not self._starting:
                        self._places.release()
                        raise
                    self._given_up += 1
                    continue
                except BaseException:
                    self._places.release()
                    raise
            instance = self._idle.pop()
            if await self._is_healthy(instance.environment):
                return instance
            self._retire(instance)

    async def _start(self) -> _Instance:
        self._starting += 1
        try:
            async with asyncio.timeout(self._limits.start_seconds):
                instance = _Instance(await self._factory())
        except TrajmillError:
            raise
        except Exception as error:
            text = error_text(error, "the start of an environment", self._limits.start_seconds)
            raise EnvironmentFailure(text, FailureClass.SETUP) from error
        finally:
            self._starting -= 1
            self._reaper.watch(*_belongings(self._factory))
        self._reaper.watch(*_belongings(instance.environment))
        self._all.add(instance)
        if self._given_up:
            # Starting works again, so another instance may be started.
            self._given_up -= 1
            self._places.release()
        return instance

    async def _is_healthy(self, environment: Environment) -> bool:
        if not isinstance(environment, HealthChecked):
            return True
        try:
            async with asyncio.timeout(self._limits.step_seconds):
                return await environment.healthy()
        except Exception:
            return False

    def _retire(self, instance: _Instance) -> asyncio.Task[None]:
        if instance.ending is None:
            instance.ending = asyncio.create_task(self._end(instance))
        return instance.ending

    async def _end(self, instance: _Instance) -> None:
        environment = instance.environment
        try:
            await _end_in_time(environment.close(), self._limits.close_seconds, _belongings(environment))
        finally:
            self._all.discard(instance)
            self._places.release()


async def _end_in_time(closing: Coroutine[None, None, None], seconds: float, belongings: Belongings) -> None:
    """Close something; if that fails or hangs, end its processes and remove its folders."""
    try:
        async with asyncio.timeout(seconds):
            await closing
    except Exception:
        await asyncio.to_thread(end_processes, belongings.process_ids)
        for folder in belongings.folders:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _belongings(owner: Environment | EnvironmentFactory) -> Belongings:
    return owner.belongings() if isinstance(owner, Owner) else Belongings()
