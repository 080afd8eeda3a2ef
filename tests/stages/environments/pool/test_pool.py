import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stages.environments.pool.counting import PRESS, SHORT_LIMITS, episode, play, pool_of
from tests.stages.environments.processes import children_of, runs, until_gone
from tests.stages.rollout.toy import ToyEnvironment, ToyFactory, toy_query
from trajmill.schemas.actions import Wait
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.pool.pool import EnvironmentLimits, EnvironmentPool
from trajmill.stages.reaper import Reaper, end_processes

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


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
WORKER = f"""
import asyncio, subprocess, sys
from pathlib import Path
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.pool.pool import EnvironmentPool
from tests.stages.rollout.toy import ToyEnvironment

def stubborn():
    program = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], stdout=subprocess.PIPE, text=True)
    print(program.stdout.readline().strip(), end=" ")
    return program.pid

class Holding(ToyEnvironment):
    def belongings(self):
        return Belongings((self.program,), (Path(sys.argv[1]),))

class Factory:
    shared = 0
    async def __call__(self):
        self.shared = self.shared or stubborn()
        environment = Holding()
        environment.program = stubborn()
        return environment
    def belongings(self):
        return Belongings((self.shared,), ()) if self.shared else Belongings()

async def main():
    async with EnvironmentPool(Factory(), 1).lease():
        print(flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def started(code: str, *arguments: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A program, and the processes that it names on its first line."""
    program = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    return program, [int(word) for word in program.stdout.readline().split()]


def test_a_killed_worker_leaves_nothing_of_its_environments_and_no_reaper(tmp_path: Path) -> None:
    folder = tmp_path / "a folder\nwith a name"
    (folder / "deep").mkdir(parents=True)
    worker, named = started(WORKER, str(folder))
    left = {*named} | children_of(worker.pid)
    assert len(named) == 4 and len(left) == 5, "two programs with a child each, and the reaper"
    assert all(map(runs, left))
    worker.kill()
    worker.communicate()
    until_gone(left, folder)


async def test_an_instance_whose_closing_hangs_is_ended_with_its_processes_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    folder.mkdir()
    program = subprocess.Popen(["sleep", "600"])

    class Holding(ToyEnvironment):
        def belongings(self) -> Belongings:
            return Belongings((program.pid,), (folder,))

    factory = ToyFactory([Holding(hanging="close")])
    async with pool_of(factory, 1, SHORT_LIMITS._replace(recycle_after=1)) as pool:
        await episode(pool)
        async with pool.lease() as environment:
            await play(environment)
            assert not runs(program.pid) and not folder.exists()
    program.wait()


def test_closing_ends_what_is_left_and_spares_what_was_not_named(tmp_path: Path) -> None:
    (program, family), (other, others) = started(STUBBORN), started(STUBBORN)
    reaper = Reaper()
    reaper.watch([], [])
    reaper.watch([program.pid, program.pid], [tmp_path / "not there"])
    reaper.close()
    reaper.close()
    assert not any(map(runs, family)) and all(map(runs, others))
    end_processes([other.pid])
    assert not any(map(runs, others))
    for each in (program, other):
        each.communicate()
    end_processes([program.pid])


def test_a_process_that_leaves_by_itself_may_clean_up_first(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = f"import sys; sys.stdin.read(); open({str(note)!r}, 'w').close()"
    program = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    reaper = Reaper()
    reaper.watch([program.pid], [])
    assert program.stdin is not None
    program.stdin.close()
    reaper.close()
    assert program.wait() == 0 and note.exists()


def test_a_group_is_asked_to_end() -> None:
    code = "import signal; print(signal.pthread_sigmask(0, [15]), flush=True); signal.sigwait([15]); print('asked')"
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert program.stdout is not None and program.stdout.readline()
    reaper = Reaper()
    reaper.watch([], [], [program.pid])
    reaper.close()
    assert program.communicate()[0] == "asked\n"


def test_a_reaper_that_was_killed_is_replaced() -> None:
    program, family = started(STUBBORN)
    before = children_of(os.getpid())
    reaper = Reaper()
    reaper.watch([program.pid], [])
    (watcher,) = children_of(os.getpid()) - before
    os.kill(watcher, signal.SIGKILL)
    until_gone([watcher])
    reaper.watch([program.pid], [])
    reaper.close()
    assert not any(map(runs, family))
    program.communicate()
