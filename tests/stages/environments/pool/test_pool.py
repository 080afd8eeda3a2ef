from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from tests.stages.environments.pool.test_reaper import runs, until_gone
from tests.stages.rollout.toy import ToyEnvironment, toy_query
from trajmill.schemas.actions import Action, Click, Wait
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.pool.leased import EnvironmentLimits, LeasedEnvironment
from trajmill.stages.environments.pool.pool import EnvironmentPool

pytestmark = pytest.mark.slow

T = TypeVar("T")
PRESS = Click(x=5, y=5)
HASTE = EnvironmentLimits(
    start_seconds=0.1, reset_seconds=0.1, step_seconds=0.1, score_seconds=0.1, close_seconds=0.1, lease_seconds=60.0
)


@dataclass
class Faulty(ToyEnvironment):
    """An environment in which single calls hang or raise."""

    hanging: str = ""
    raised: Exception | None = None
    sick: bool = False
    living: list[int] = field(default_factory=list)

    def __hash__(self) -> int:
        return id(self)

    async def _fault(self, call: str) -> None:
        if self.hanging == call:
            await asyncio.sleep(600)

    async def reset(self, query: Query, seed: int) -> Observation:
        await self._fault("reset")
        return await super().reset(query, seed)

    async def step(self, action: Action) -> Observation:
        await self._fault("step")
        if self.raised is not None:
            raise self.raised
        return await super().step(action)

    async def score(self) -> float | None:
        await self._fault("score")
        return await super().score()

    async def close(self) -> None:
        await self._fault("close")
        if not self.closed:
            self.living.pop()
        await super().close()

    async def healthy(self) -> bool:
        return not self.sick


@dataclass
class Shop:
    """Makes environments of given kinds, then sound ones, and counts how many there are at once."""

    kinds: list[Faulty] = field(default_factory=list)
    made: list[Faulty] = field(default_factory=list)
    living: list[int] = field(default_factory=list)
    most: int = 0
    closed: int = 0

    async def __call__(self) -> Faulty:
        environment = self.kinds.pop(0) if self.kinds else Faulty()
        environment.living = self.living
        self.living.append(1)
        self.most = max(self.most, len(self.living))
        self.made.append(environment)
        await asyncio.sleep(0)
        return environment

    async def close(self) -> None:
        self.closed += 1


def use(pool: EnvironmentPool, work: Callable[[], Awaitable[T]]) -> T:
    async def run() -> T:
        try:
            return await work()
        finally:
            await pool.close()

    return asyncio.run(run())


async def play(environment: LeasedEnvironment) -> float | None:
    await environment.reset(toy_query(), 0)
    await environment.step(PRESS)
    return await environment.score()


@pytest.mark.parametrize(
    ("call", "failure_class"),
    [
        ("reset", FailureClass.SETUP),
        ("step", FailureClass.ENVIRONMENT),
        ("score", FailureClass.ENVIRONMENT),
    ],
)
def test_a_call_that_hangs_is_a_failure_and_the_next_lease_gets_a_fresh_instance(
    call: str, failure_class: FailureClass
) -> None:
    shop = Shop([Faulty(hanging=call)])
    pool = EnvironmentPool(shop, 1, HASTE)

    async def work() -> float | None:
        with pytest.raises(EnvironmentFailure, match=f"a {call} did not end within 0.1 s") as failure:
            async with pool.lease() as hanging:
                await play(hanging)
        assert failure.value.failure_class is failure_class
        async with pool.lease() as sound:
            return await play(sound)

    assert use(pool, work) == 1.0
    assert [environment.closed for environment in shop.made] == [True, True] and shop.most == 1


@pytest.mark.parametrize("error", [ConnectionResetError("the X server is gone"), TimeoutError(), ValueError("a\nb")])
def test_whatever_an_environment_raises_is_one_line_of_its_failure(error: Exception) -> None:
    pool = EnvironmentPool(Shop([Faulty(raised=error)]), 1)

    async def work() -> EnvironmentFailure:
        with pytest.raises(EnvironmentFailure) as failure:
            async with pool.lease() as environment:
                await play(environment)
        return failure.value

    failure = use(pool, work)
    assert failure.failure_class is FailureClass.ENVIRONMENT and "\n" not in str(failure)


@pytest.mark.parametrize(("kind", "replaced"), [(FailureClass.TASK, False), (FailureClass.ENVIRONMENT, True)])
def test_a_task_that_is_wrong_does_not_cost_the_instance(kind: FailureClass, replaced: bool) -> None:
    shop = Shop([Faulty(raised=EnvironmentFailure("no such file", kind))])
    pool = EnvironmentPool(shop, 1)

    async def work() -> None:
        with pytest.raises(EnvironmentFailure):
            async with pool.lease() as environment:
                await play(environment)
        shop.made[0].raised = None
        async with pool.lease() as environment:
            await play(environment)

    use(pool, work)
    assert len(shop.made) == (2 if replaced else 1)


def test_a_call_that_is_broken_off_costs_the_instance() -> None:
    shop = Shop([Faulty(hanging="step")])
    pool = EnvironmentPool(shop, 1)

    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), pool.lease() as environment:
                await play(environment)

    use(pool, work)
    assert shop.made[0].closed is True


def test_the_limit_holds_while_instances_die_slowly() -> None:
    shop = Shop([Faulty(hanging="step", closed=False) for _ in range(6)])

    async def close_slowly(environment: Faulty) -> None:
        await asyncio.sleep(0.03)
        await Faulty.close(environment)

    for environment in shop.kinds:
        environment.close = lambda environment=environment: close_slowly(environment)  # type: ignore[method-assign, misc]
    pool = EnvironmentPool(shop, 3, HASTE._replace(close_seconds=60.0))

    async def episode() -> float | None:
        try:
            async with pool.lease() as environment:
                return await play(environment)
        except EnvironmentFailure:
            return None

    async def work() -> list[float | None]:
        return list(await asyncio.gather(*(episode() for _ in range(20))))

    scores = use(pool, work)
    assert scores.count(None) == 6 and scores.count(1.0) == 14
    assert shop.most == 3 and not shop.living


def test_an_instance_is_recycled_after_its_number_of_leases() -> None:
    shop = Shop()
    pool = EnvironmentPool(shop, 1, EnvironmentLimits(recycle_after=2))

    async def work() -> None:
        for _ in range(5):
            async with pool.lease() as environment:
                await play(environment)

    use(pool, work)
    assert len(shop.made) == 3 and shop.most == 1


def test_an_instance_that_has_fallen_ill_is_not_lent_out() -> None:
    shop = Shop()
    pool = EnvironmentPool(shop, 1)

    async def work() -> None:
        async with pool.lease() as environment:
            await play(environment)
        shop.made[0].sick = True
        async with pool.lease() as environment:
            await play(environment)

    use(pool, work)
    assert len(shop.made) == 2 and shop.most == 1


def test_a_lease_that_is_never_given_back_expires() -> None:
    shop = Shop([Faulty(hanging="step")])
    pool = EnvironmentPool(shop, 1, EnvironmentLimits(lease_seconds=0.1))

    async def keep() -> tuple[str, str]:
        async with pool.lease() as environment:
            with pytest.raises(EnvironmentFailure) as broken:
                await play(environment)
            with pytest.raises(EnvironmentFailure) as late:
                await environment.step(Wait())
        return str(broken.value), str(late.value)

    async def work() -> tuple[tuple[str, str], float | None]:
        kept = asyncio.create_task(keep())
        await asyncio.sleep(0)
        async with pool.lease() as environment:
            score = await play(environment)
        return await kept, score

    (broken, late), score = use(pool, work)
    assert score == 1.0 and shop.most == 1
    assert "under way at the end of the lease" in broken and "after the end of the lease" in late


def test_a_start_that_hangs_or_breaks_is_a_setup_failure_and_frees_its_place() -> None:
    starts = 0

    class Never(Shop):
        async def __call__(self) -> Faulty:
            nonlocal starts
            starts += 1
            if starts == 1:
                await asyncio.sleep(600)
            if starts == 2:
                raise OSError("no free port")
            return await super().__call__()

    shop = Never()
    pool = EnvironmentPool(shop, 1, HASTE)

    async def start() -> EnvironmentFailure:
        with pytest.raises(EnvironmentFailure) as failure:
            async with pool.lease():
                pass
        assert failure.value.failure_class is FailureClass.SETUP
        return failure.value

    async def work() -> list[str]:
        words = [str(await start()), str(await start())]
        async with pool.lease() as environment:
            await play(environment)
        return words

    hung, broken = use(pool, work)
    assert "did not end within 0.1 s" in hung and "OSError: no free port" in broken


@dataclass
class Machines(Shop):
    """Has so many machines; another environment cannot be started."""

    machines: int = 2
    refused: int = 0

    async def __call__(self) -> Faulty:
        if len(self.living) >= self.machines:
            self.refused += 1
            raise EnvironmentFailure("all machines are in use", FailureClass.SETUP)
        return await super().__call__()


def test_a_pool_with_fewer_machines_than_episodes_goes_on_with_those_that_it_has() -> None:
    shop = Machines([Faulty(hanging="step"), Faulty(hanging="step")])
    pool = EnvironmentPool(shop, 8, HASTE)

    async def episode() -> float | None:
        try:
            async with pool.lease() as environment:
                return await play(environment)
        except EnvironmentFailure as failure:
            assert failure.failure_class is FailureClass.ENVIRONMENT
            return None

    async def work() -> list[float | None]:
        return list(await asyncio.gather(*(episode() for _ in range(30))))

    scores = use(pool, work)
    assert scores.count(1.0) == 28 and shop.most == 2 and len(shop.made) == 4
    assert shop.refused < 30


def test_a_pool_that_has_lost_its_last_machine_says_so_to_all_that_wait() -> None:
    shop = Machines([Faulty(hanging="step")], machines=1)
    pool = EnvironmentPool(shop, 4, HASTE)

    async def episode() -> FailureClass:
        with pytest.raises(EnvironmentFailure) as failure:
            async with pool.lease() as environment:
                shop.machines = 0
                await play(environment)
        return failure.value.failure_class

    async def work() -> list[FailureClass]:
        return list(await asyncio.gather(*(episode() for _ in range(6))))

    classes = use(pool, work)
    assert sorted(classes) == [FailureClass.ENVIRONMENT] + [FailureClass.SETUP] * 5


def test_bad_input_is_told_to_the_user_instead_of_being_retried() -> None:
    pool = EnvironmentPool(Shop([Faulty(raised=BadInputError("no such file"))]), 1)

    async def work() -> None:
        async with pool.lease() as environment:
            await play(environment)

    with pytest.raises(BadInputError):
        use(pool, work)


def test_an_instance_whose_closing_hangs_is_ended_with_its_processes_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    folder.mkdir()

    class Holding(Faulty):
        def __init__(self) -> None:
            super().__init__(hanging="close")
            self.program = subprocess.Popen(["sleep", "600"])

        def belongings(self) -> Belongings:
            return Belongings((self.program.pid,), (folder,))

    holding = Holding()
    shop = Shop([holding])
    pool = EnvironmentPool(shop, 1, HASTE._replace(recycle_after=1))

    async def work() -> bool:
        async with pool.lease() as environment:
            await play(environment)
        async with pool.lease() as environment:
            await play(environment)
            return runs(holding.program.pid) or folder.exists()

    assert use(pool, work) is False
    holding.program.wait()


def test_a_killed_worker_leaves_nothing_of_its_environments() -> None:
    code = """
import asyncio, subprocess
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.pool.pool import EnvironmentPool
from tests.stages.rollout.toy import ToyEnvironment

class Holding(ToyEnvironment):
    def belongings(self):
        return Belongings((self.program.pid,), ())

class Factory:
    shared = None
    async def __call__(self):
        self.shared = self.shared or subprocess.Popen(["sleep", "600"])
        environment = Holding()
        environment.program = self.own = subprocess.Popen(["sleep", "600"])
        return environment
    def belongings(self):
        return Belongings((self.shared.pid,), ()) if self.shared else Belongings()
    async def close(self):
        pass

async def main():
    factory = Factory()
    async with EnvironmentPool(factory, 1).lease():
        print(factory.shared.pid, factory.own.pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        left = [int(word) for word in worker.stdout.readline().split()]
        assert len(left) == 2 and all(map(runs, left))
        worker.kill()
    until_gone(left)
