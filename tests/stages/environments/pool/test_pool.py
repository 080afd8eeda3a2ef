import asyncio

import pytest

from tests.stages.environments.pool.counting import PRESS, SHORT_LIMITS, episode, play, pool_of
from tests.stages.rollout.toy import ToyEnvironment, ToyFactory, toy_query
from trajmill.schemas.actions import Wait
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.stages.environments.pool.pool import EnvironmentLimits, EnvironmentPool

pytestmark = pytest.mark.slow
ENVIRONMENT, SETUP = FailureClass.ENVIRONMENT, FailureClass.SETUP


async def failed(pool: EnvironmentPool) -> EnvironmentFailure:
    with pytest.raises(EnvironmentFailure) as failure:
        await episode(pool)
    return failure.value


async def scores(pool: EnvironmentPool, episodes: int) -> list[object]:
    """The scores of episodes at once, or the classes of their failures."""
    ended = await asyncio.gather(*(episode(pool) for _ in range(episodes)), return_exceptions=True)
    return [each.failure_class if isinstance(each, EnvironmentFailure) else each for each in ended]


async def test_each_call_has_its_own_limit_whatever_the_calls_before_it_had_and_took() -> None:
    factory = ToyFactory([ToyEnvironment(step_seconds=0.4)])
    limits = SHORT_LIMITS._replace(reset_seconds=60.0, step_seconds=1.0)
    async with pool_of(factory, 1, limits) as pool, pool.lease() as environment:
        await environment.reset(toy_query(), 0)
        for _ in range(3):
            await environment.step(PRESS)
        factory.made[0].step_seconds = 600.0
        with pytest.raises(EnvironmentFailure, match="a step did not end within 1 s"):
            await environment.step(PRESS)
    assert factory.made[0].closed


async def test_a_task_that_is_wrong_does_not_cost_the_instance_and_bad_input_is_told_to_the_user() -> None:
    for kind, instances in ((FailureClass.TASK, 1), (ENVIRONMENT, 2)):
        factory = ToyFactory([ToyEnvironment(raised=EnvironmentFailure("no such file", kind))])
        async with pool_of(factory) as pool:
            await failed(pool)
            factory.made[0].raised = None
            await episode(pool)
        assert len(factory.made) == instances
    async with pool_of(ToyFactory([ToyEnvironment(raised=BadInputError("no such file"))])) as pool:
        with pytest.raises(BadInputError):
            await episode(pool)


async def test_a_cancelled_call_discards_the_instance() -> None:
    factory = ToyFactory([ToyEnvironment(hanging="step")])
    async with pool_of(factory) as pool:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await episode(pool)
    assert factory.made[0].closed is True


async def test_a_start_that_hangs_or_breaks_is_a_setup_failure_and_frees_its_place() -> None:
    starts = iter(("hangs", "breaks"))

    class SlowToStart(ToyFactory):
        async def __call__(self) -> ToyEnvironment:
            match next(starts, ""):
                case "hangs":
                    await asyncio.sleep(600)
                case "breaks":
                    raise OSError("no free port")
            return await super().__call__()

    async with pool_of(SlowToStart(), 1, SHORT_LIMITS) as pool:
        hung, broken = await failed(pool), await failed(pool)
        assert await episode(pool) == 1.0
    assert hung.failure_class is broken.failure_class is SETUP
    assert "did not end within 0.3 s" in str(hung) and "OSError: no free port" in str(broken)


async def test_the_limit_holds_while_instances_die_slowly() -> None:
    class SlowToClose(ToyEnvironment):
        async def close(self) -> None:
            await asyncio.sleep(0.03)
            await super().close()

    factory = ToyFactory([SlowToClose(hanging="step") for _ in range(6)])
    async with pool_of(factory, 3, SHORT_LIMITS._replace(close_seconds=60.0)) as pool:
        found = await scores(pool, 20)
    assert found.count(ENVIRONMENT) == 6 and found.count(1.0) == 14
    assert factory.most_at_once == 3 and not factory.open_now


async def test_an_instance_is_recycled_after_its_number_of_leases_and_an_unhealthy_one_is_not_lent_out() -> None:
    factory = ToyFactory()
    async with pool_of(factory, 1, EnvironmentLimits(recycle_after=2)) as pool:
        for _ in range(5):
            await episode(pool)
        assert len(factory.made) == 3
        factory.made[2].ill = True
        await episode(pool)
    assert len(factory.made) == 4 and factory.most_at_once == 1


async def test_a_lease_that_is_never_given_back_expires() -> None:
    factory = ToyFactory([ToyEnvironment(hanging="step")])
    async with pool_of(factory, 1, EnvironmentLimits(lease_seconds=0.1)) as pool:

        async def keep() -> tuple[str, str]:
            async with pool.lease() as environment:
                with pytest.raises(EnvironmentFailure) as broken:
                    await play(environment)
                with pytest.raises(EnvironmentFailure) as late:
                    await environment.step(Wait())
            return str(broken.value), str(late.value)

        kept = asyncio.create_task(keep())
        await asyncio.sleep(0)
        assert await episode(pool) == 1.0 and factory.most_at_once == 1
        broken, late = await kept
    assert "under way at the end of the lease" in broken and "after the end of the lease" in late


async def test_a_pool_with_fewer_machines_than_episodes_goes_on_with_those_that_it_has() -> None:
    factory = ToyFactory([ToyEnvironment(hanging="step"), ToyEnvironment(hanging="step")], machines=2)
    async with pool_of(factory, 8, SHORT_LIMITS) as pool:
        found = await scores(pool, 30)
    assert found.count(1.0) == 28 and found.count(ENVIRONMENT) == 2
    # One machine may do the rest before the other is started again.
    assert factory.most_at_once == 2 and 3 <= len(factory.made) <= 4 and factory.refused < 30


async def test_a_pool_that_has_lost_its_last_machine_says_so_to_all_that_wait() -> None:
    factory = ToyFactory([ToyEnvironment(hanging="step")], machines=1)
    async with pool_of(factory, 4, SHORT_LIMITS) as pool:
        waiting = asyncio.create_task(scores(pool, 6))
        while not factory.made:
            await asyncio.sleep(0)
        factory.machines = 0
        assert sorted(map(str, await waiting)) == [ENVIRONMENT] + [SETUP] * 5
