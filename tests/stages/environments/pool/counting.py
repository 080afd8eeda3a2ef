from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.stages.rollout.toy import ToyFactory, toy_query
from trajmill.schemas.actions import Click
from trajmill.stages.environments.pool.pool import EnvironmentLimits, EnvironmentPool, LeasedEnvironment

SHORT_LIMITS = EnvironmentLimits(
    start_seconds=0.3, reset_seconds=0.3, step_seconds=0.3, score_seconds=0.3, close_seconds=0.3, lease_seconds=60.0
)
"""So short that a call that hangs is soon over, and long enough for a call that does not."""
PRESS = Click(x=5, y=5)


@asynccontextmanager
async def pool_of(
    factory: ToyFactory, size: int = 1, limits: EnvironmentLimits = EnvironmentLimits()
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
