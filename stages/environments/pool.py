"""A pool of environments: leases one to each episode, recycles, replaces what failed, closes everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from schemas.errors import EnvironmentFailure
from stages.environments.base import Environment, EnvironmentFactory


class EnvironmentPool:
    """At most `limit` environments of one kind, started when first needed.

    An environment whose lease ended with an error is closed and never leased again; one that has served
    `recycle_after` leases is replaced.
    """

    def __init__(self, factory: EnvironmentFactory, limit: int, recycle_after: int = 1000) -> None:
        self._factory = factory
        self._recycle_after = recycle_after
        self._places = asyncio.Semaphore(limit)
        self._idle: list[tuple[Environment, int]] = []
        self._leased: set[Environment] = set()

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Environment]:
        """An environment for one episode.

        Raises:
            schemas.errors.EnvironmentFailure: of class `setup` when none can be started.
        """
        async with self._places:
            environment, served = self._idle.pop() if self._idle else (await self._factory(), 0)
            self._leased.add(environment)
            try:
                yield environment
            except BaseException:
                await self._discard(environment)
                raise
            if served + 1 >= self._recycle_after:
                await self._discard(environment)
            else:
                self._leased.discard(environment)
                self._idle.append((environment, served + 1))

    async def close(self) -> None:
        """Close every environment and what they share; closing twice is fine."""
        for environment in [*self._leased, *(idle for idle, _ in self._idle)]:
            await self._discard(environment)
        self._idle.clear()
        await self._factory.close()

    async def _discard(self, environment: Environment) -> None:
        self._leased.discard(environment)
        with suppress(EnvironmentFailure):
            await environment.close()
