import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.stages.rollout.toy import ToyEnvironment, toy_query
from trajmill.schemas.actions import Action, Click
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.pool.pool import EnvironmentLimits, EnvironmentPool, LeasedEnvironment

SHORT_LIMITS = EnvironmentLimits(
    start_seconds=0.3, reset_seconds=0.3, step_seconds=0.3, score_seconds=0.3, close_seconds=0.3, lease_seconds=60.0
)
"""So short that a call that hangs is soon over, and long enough for a call that does not."""
PRESS = Click(x=5, y=5)


@dataclass
class Faulty(ToyEnvironment):
    """An environment in which single calls hang or raise, and whose steps may take some time."""

    hanging: str = ""
    raised: Exception | None = None
    ill: bool = False
    step_seconds: float = 0.0
    open_now: list[int] = field(default_factory=list)

    def __hash__(self) -> int:
        return id(self)

    def again(self) -> "Faulty":
        """Another instance with the same fault."""
        return Faulty(hanging=self.hanging, raised=self.raised)

    async def _fault(self, call: str) -> None:
        if self.hanging == call:
            await asyncio.sleep(600)

    async def reset(self, query: Query, seed: int) -> Observation:
        await self._fault("reset")
        return await super().reset(query, seed)

    async def step(self, action: Action) -> Observation:
        await self._fault("step")
        await asyncio.sleep(self.step_seconds)
        if self.raised is not None:
            raise self.raised
        return await super().step(action)

    async def score(self) -> float | None:
        await self._fault("score")
        return await super().score()

    async def close(self) -> None:
        await self._fault("close")
        if not self.closed:
            self.open_now.pop()
        await super().close()

    async def healthy(self) -> bool:
        return not self.ill


@dataclass
class CountingFactory:
    """Gives the prepared environments, then sound ones, and counts how many are open at once and how many it refuses.

    It has so many machines; another environment cannot be started.
    """

    prepared: list[Faulty] = field(default_factory=list)
    made: list[Faulty] = field(default_factory=list)
    open_now: list[int] = field(default_factory=list)
    most_at_once: int = 0
    machines: int = 1000
    refused: int = 0

    async def __call__(self) -> Faulty:
        if len(self.open_now) >= self.machines:
            self.refused += 1
            raise EnvironmentFailure("all machines are in use", FailureClass.SETUP)
        environment = self.prepared.pop(0) if self.prepared else Faulty()
        environment.open_now = self.open_now
        self.open_now.append(1)
        self.most_at_once = max(self.most_at_once, len(self.open_now))
        self.made.append(environment)
        await asyncio.sleep(0)
        return environment

    async def close(self) -> None:
        pass


@asynccontextmanager
async def pool_of(
    factory: CountingFactory, size: int = 1, limits: EnvironmentLimits = EnvironmentLimits()
) -> AsyncIterator[EnvironmentPool]:
    pool = EnvironmentPool(factory, size, limits)
    yield pool
    await pool.close()


async def play(environment: LeasedEnvironment) -> float | None:
    await environment.reset(toy_query(), 0)
    await environment.step(PRESS)
    return await environment.score()


async def episode(pool: EnvironmentPool) -> float | None:
    async with pool.lease() as environment:
        return await play(environment)
