"""How many instances a pool keeps, and which of them it lends."""

from __future__ import annotations

import asyncio

import pytest

from tests.stages.environments.pool.counting import SHORT_LIMITS, CountingFactory, Faulty, FewMachines, play
from trajmill.schemas.actions import Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.pool.pool import EnvironmentLimits, EnvironmentPool

pytestmark = pytest.mark.slow


async def test_the_limit_holds_while_instances_die_slowly() -> None:
    factory = CountingFactory([Faulty(hanging="step", closed=False) for _ in range(6)])

    async def close_slowly(environment: Faulty) -> None:
        await asyncio.sleep(0.03)
        await Faulty.close(environment)

    for environment in factory.prepared:
        environment.close = lambda environment=environment: close_slowly(environment)  # type: ignore[method-assign, misc]
    pool = EnvironmentPool(factory, 3, SHORT_LIMITS._replace(close_seconds=60.0))

    async def episode() -> float | None:
        try:
            async with pool.lease() as environment:
                return await play(environment)
        except EnvironmentFailure:
            return None

    scores = await asyncio.gather(*(episode() for _ in range(20)))
    await pool.close()
    assert scores.count(None) == 6 and scores.count(1.0) == 14
    assert factory.most_at_once == 3 and not factory.open_now


async def test_an_instance_is_recycled_after_its_number_of_leases() -> None:
    factory = CountingFactory()
    pool = EnvironmentPool(factory, 1, EnvironmentLimits(recycle_after=2))
    for _ in range(5):
        async with pool.lease() as environment:
            await play(environment)
    await pool.close()
    assert len(factory.made) == 3 and factory.most_at_once == 1


async def test_an_unhealthy_instance_is_not_lent_out() -> None:
    factory = CountingFactory()
    pool = EnvironmentPool(factory, 1)
    async with pool.lease() as environment:
        await play(environment)
    factory.made[0].ill = True
    async with pool.lease() as environment:
        await play(environment)
    await pool.close()
    assert len(factory.made) == 2 and factory.most_at_once == 1


async def test_a_lease_that_is_never_given_back_expires() -> None:
    factory = CountingFactory([Faulty(hanging="step")])
    pool = EnvironmentPool(factory, 1, EnvironmentLimits(lease_seconds=0.1))

    async def keep() -> tuple[str, str]:
        async with pool.lease() as environment:
            with pytest.raises(EnvironmentFailure) as broken:
                await play(environment)
            with pytest.raises(EnvironmentFailure) as late:
                await environment.step(Wait())
        return str(broken.value), str(late.value)

    kept = asyncio.create_task(keep())
    await asyncio.sleep(0)
    async with pool.lease() as environment:
        score = await play(environment)
    broken, late = await kept
    await pool.close()
    assert score == 1.0 and factory.most_at_once == 1
    assert "under way at the end of the lease" in broken and "after the end of the lease" in late


async def test_a_pool_with_fewer_machines_than_episodes_goes_on_with_those_that_it_has() -> None:
    factory = FewMachines([Faulty(hanging="step"), Faulty(hanging="step")])
    pool = EnvironmentPool(factory, 8, SHORT_LIMITS)

    async def episode() -> float | None:
        try:
            async with pool.lease() as environment:
                return await play(environment)
        except EnvironmentFailure as failure:
            assert failure.failure_class is FailureClass.ENVIRONMENT
            return None

    scores = await asyncio.gather(*(episode() for _ in range(30)))
    await pool.close()
    assert scores.count(1.0) == 28 and factory.most_at_once == 2 and len(factory.made) == 4
    assert factory.refused < 30


async def test_a_pool_that_has_lost_its_last_machine_says_so_to_all_that_wait() -> None:
    factory = FewMachines([Faulty(hanging="step")], machines=1)
    pool = EnvironmentPool(factory, 4, SHORT_LIMITS)

    async def episode() -> FailureClass:
        with pytest.raises(EnvironmentFailure) as failure:
            async with pool.lease() as environment:
                factory.machines = 0
                await play(environment)
        return failure.value.failure_class

    classes = await asyncio.gather(*(episode() for _ in range(6)))
    await pool.close()
    assert sorted(classes) == [FailureClass.ENVIRONMENT] + [FailureClass.SETUP] * 5
