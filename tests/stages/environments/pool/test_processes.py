"""Nothing that an environment has started outlives it or its worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.stages.environments.pool.counting import SHORT_LIMITS, CountingFactory, Faulty, play
from tests.stages.environments.pool.test_reaper import runs, until_gone
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.pool.pool import EnvironmentPool

pytestmark = pytest.mark.slow


async def test_an_instance_whose_closing_hangs_is_ended_with_its_processes_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    folder.mkdir()

    class Holding(Faulty):
        def __init__(self) -> None:
            super().__init__(hanging="close")
            self.program = subprocess.Popen(["sleep", "600"])

        def belongings(self) -> Belongings:
            return Belongings((self.program.pid,), (folder,))

    holding = Holding()
    factory = CountingFactory([holding])
    pool = EnvironmentPool(factory, 1, SHORT_LIMITS._replace(recycle_after=1))
    async with pool.lease() as environment:
        await play(environment)
    async with pool.lease() as environment:
        await play(environment)
        assert not runs(holding.program.pid) and not folder.exists()
    await pool.close()
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
