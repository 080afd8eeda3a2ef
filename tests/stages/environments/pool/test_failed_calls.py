"""What becomes of an episode and of its instance when a call to the environment fails."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tests.stages.environments.pool.counting import SHORT_LIMITS, CountingFactory, Faulty, play
from tests.stages.rollout.toy import toy_query
from trajmill.schemas.actions import Click
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.stages.environments.pool.pool import EnvironmentPool

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("call", "failure_class"),
    [
        ("reset", FailureClass.SETUP),
        ("step", FailureClass.ENVIRONMENT),
        ("score", FailureClass.ENVIRONMENT),
    ],
)
async def test_a_call_that_hangs_is_a_failure_and_the_next_lease_gets_a_fresh_instance(
    call: str, failure_class: FailureClass
) -> None:
    factory = CountingFactory([Faulty(hanging=call)])
    pool = EnvironmentPool(factory, 1, SHORT_LIMITS)
    with pytest.raises(EnvironmentFailure, match=f"a {call} did not end within 0.3 s") as failure:
        async with pool.lease() as hanging:
            await play(hanging)
    assert failure.value.failure_class is failure_class
    async with pool.lease() as sound:
        assert await play(sound) == 1.0
    await pool.close()
    assert [environment.closed for environment in factory.made] == [True, True] and factory.most_at_once == 1


@dataclass(eq=False)
class _Slow(Faulty):
    """Takes some time for each step."""

    seconds: float = 0.4

    async def _fault(self, call: str) -> None:
        await asyncio.sleep(self.seconds if call == "step" else 0.0)


async def test_each_call_has_its_own_limit_whatever_the_calls_before_it_had_and_took() -> None:
    factory = CountingFactory([_Slow()])
    limits = SHORT_LIMITS._replace(reset_seconds=60.0, step_seconds=1.0)
    pool = EnvironmentPool(factory, 1, limits)
    async with pool.lease() as environment:
        await environment.reset(toy_query(), 0)
        for _ in range(4):
            await environment.step(Click(x=5, y=5))
        made = factory.made[0]
        assert isinstance(made, _Slow)
        made.seconds = 600.0
        with pytest.raises(EnvironmentFailure, match="a step did not end within 1 s"):
            await environment.step(Click(x=5, y=5))
    await pool.close()
    assert factory.made[0].closed


@pytest.mark.parametrize("error", [ConnectionResetError("the X server is gone"), TimeoutError(), ValueError("a\nb")])
async def test_whatever_an_environment_raises_gives_one_error_line_of_its_failure(error: Exception) -> None:
    pool = EnvironmentPool(CountingFactory([Faulty(raised=error)]), 1)
    with pytest.raises(EnvironmentFailure) as failure:
        async with pool.lease() as environment:
            await play(environment)
    await pool.close()
    assert failure.value.failure_class is FailureClass.ENVIRONMENT and "\n" not in str(failure.value)


@pytest.mark.parametrize(("kind", "replaced"), [(FailureClass.TASK, False), (FailureClass.ENVIRONMENT, True)])
async def test_a_task_that_is_wrong_does_not_cost_the_instance(kind: FailureClass, replaced: bool) -> None:
    factory = CountingFactory([Faulty(raised=EnvironmentFailure("no such file", kind))])
    pool = EnvironmentPool(factory, 1)
    with pytest.raises(EnvironmentFailure):
        async with pool.lease() as environment:
            await play(environment)
    factory.made[0].raised = None
    async with pool.lease() as environment:
        await play(environment)
    await pool.close()
    assert len(factory.made) == (2 if replaced else 1)


async def test_a_cancelled_call_discards_the_instance() -> None:
    factory = CountingFactory([Faulty(hanging="step")])
    pool = EnvironmentPool(factory, 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), pool.lease() as environment:
            await play(environment)
    await pool.close()
    assert factory.made[0].closed is True


async def test_a_start_that_hangs_or_breaks_is_a_setup_failure_and_frees_its_place() -> None:
    starts = 0

    class SlowToStart(CountingFactory):
        async def __call__(self) -> Faulty:
            nonlocal starts
            starts += 1
            if starts == 1:
                await asyncio.sleep(600)
            if starts == 2:
                raise OSError("no free port")
            return await super().__call__()

    factory = SlowToStart()
    pool = EnvironmentPool(factory, 1, SHORT_LIMITS)

    async def start() -> EnvironmentFailure:
        with pytest.raises(EnvironmentFailure) as failure:
            async with pool.lease():
                pass
        assert failure.value.failure_class is FailureClass.SETUP
        return failure.value

    hung, broken = str(await start()), str(await start())
    async with pool.lease() as environment:
        await play(environment)
    await pool.close()
    assert "did not end within 0.3 s" in hung and "OSError: no free port" in broken


async def test_bad_input_is_told_to_the_user_instead_of_being_retried() -> None:
    pool = EnvironmentPool(CountingFactory([Faulty(raised=BadInputError("no such file"))]), 1)
    with pytest.raises(BadInputError):
        async with pool.lease() as environment:
            await play(environment)
    await pool.close()
