import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stages.environments.pool.counting import SHORT_LIMITS, episode, play, pool_of
from tests.stages.environments.processes import children_of, runs, until_gone
from tests.stages.rollout.toy import ToyEnvironment, ToyFactory
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.pool.reaper import Reaper, end_processes

pytestmark = pytest.mark.slow

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
