"""One factory of environments on one event loop, for tests that need no browser of their own."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, Protocol, TypeVar

from trajmill.stages.environments.base import Environment

T = TypeVar("T")
E = TypeVar("E", bound=Environment)
E_co = TypeVar("E_co", bound=Environment, covariant=True)


class Factory(Protocol[E_co]):
    async def __call__(self) -> E_co: ...

    async def close(self) -> None: ...


class SharedFactory(Generic[E]):
    """Starts what its environments share, a browser for example, only once."""

    def __init__(self, factory: Factory[E]) -> None:
        self.factory = factory
        self._runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def close(self) -> None:
        for _ in range(2):
            self.run(self.factory.close())
        self._runner.close()
