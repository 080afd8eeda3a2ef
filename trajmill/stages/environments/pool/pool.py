"""Leases environments to episodes, replaces those that failed, and ends all their processes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass

from trajmill.schemas.errors import EnvironmentFailure, FailureClass, TrajmillError
from trajmill.stages.environments.base import Belongings, Environment, EnvironmentFactory, HealthChecked, Owner
from trajmill.stages.environments.pool.leased import EnvironmentLimits, LeasedEnvironment, error_text
from trajmill.stages.environments.pool.reaper import Reaper, end_processes


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
        """Lease an environment for one episode.

        A lease ends after `lease_seconds`: every later call of the environment fails.

        Raises:
            EnvironmentFailure: no environment can be started in time (class `setup`).
        """
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
        """Close all environments and the factory, and end their remaining processes; closing twice is fine."""
        for _ in self._idle:
            await self._places.acquire()
        self._idle.clear()
        await asyncio.gather(*map(self._retire, self._all))
        shared = _belongings(self._factory)
        await _end_in_time(self._factory.close(), self._limits.close_seconds, shared)
        await asyncio.to_thread(self._reaper.close)

    async def _fit_instance(self) -> _Instance:
        """An idle healthy instance, or a new one; it takes a place of the semaphore."""
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
        """Close an instance in the background; its place is free after that."""
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
