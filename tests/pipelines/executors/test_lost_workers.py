"""All workers of a Dask cluster leave in the middle of a stage; the scheduler and the workers are processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from dask import config
from distributed import Client, LocalCluster

from tests.warehouse.samples import stage_run, step_verdicts
from trajmill.pipelines.executors.cluster import DASHBOARD, connected
from trajmill.pipelines.fan_out import BeamSettings, StageWork, WrittenFiles, fan_out
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import Origin
from trajmill.warehouse.layout import create_warehouse

pytestmark = pytest.mark.slow

AT = stage_run("judge")
ORIGIN = Origin(round=AT.round, run_id=AT.run_id, code_version="test")


@dataclass(frozen=True)
class Wait(StageWork[int]):
    """Begin each shard, and end it only once there is a file `go`."""

    folder: Path

    def identity(self, number: int) -> object:
        return number

    def __call__(self, shard: str, number: int) -> WrittenFiles:
        (self.folder / "begun").touch()
        until((self.folder / "go").exists)
        return self.written(shard, {"step_verdicts": step_verdicts(1, AT, number)})


def until(happened: Callable[[], object]) -> None:
    end = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


@contextmanager
def started(program: str, *arguments: str) -> Iterator[Callable[[], None]]:
    """Yield what kills the Python program and all its processes."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def kill() -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    try:
        yield kill
    finally:
        kill()


def test_a_stage_whose_workers_all_left_says_so_and_goes_on_with_the_next_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse, file = create_warehouse(tmp_path / "warehouse"), tmp_path / "scheduler.json"
    link = warehouse.run(AT.run_id) / DASHBOARD
    options = ["--host=127.0.0.1", "--port=0", "--dashboard-address=:0", f"--scheduler-file={file}"]
    with ExitStack() as running:
        running.enter_context(started("from distributed.cli.dask_scheduler import main; main()", *options))
        until(file.exists)
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            address = client.scheduler.address
        thread = running.enter_context(ThreadPoolExecutor(1))
        running.enter_context(closing(connected(address)))
        work, settings = Wait(warehouse, AT, ORIGIN, tmp_path), BeamSettings(runner="dask", cluster=address)
        working = thread.submit(fan_out, work, [0, 1], settings)
        join = "from trajmill.flows.cli import main; main()", "worker", "--scheduler", address
        with started(*join) as kill:
            until((tmp_path / "begun").exists)
            kill()
            line = f"no worker is left at {address}: waiting; start one with `trajmill worker --scheduler {address}`"
            until(lambda: line in caplog.messages)
            until(lambda: link.read_text().endswith(f"; {line}"))
        with started(*join):
            until(lambda: f"1 worker(s) at {address}: going on" in caplog.messages)
            until(lambda: line not in link.read_text())
            (tmp_path / "go").touch()
            assert working.result(300).rows("step_verdicts") == 2


def test_a_stage_without_workers_ends_after_the_time_that_dask_is_given(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    with (
        config.set({"distributed.scheduler.no-workers-timeout": "1s"}),
        LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=None) as cluster,
        closing(connected(cluster.scheduler_address)),
        pytest.raises(TrajmillError, match="waiting without any running workers"),
    ):
        settings = BeamSettings(runner="dask", cluster=cluster.scheduler_address)
        fan_out(Wait(warehouse, AT, ORIGIN, tmp_path), [0], settings)
