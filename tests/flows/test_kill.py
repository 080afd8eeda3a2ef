"""`kill -9` in one stage after the other, then the same command again, also with other workers: the same result."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.flows.small_run import run_stages, small_config
from trajmill.flows.configuration.config import Config
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import release_names, verify_release

pytestmark = pytest.mark.slow

VOLATILE = {"wall_ms", "environment_ms", "latency_ms", "stages", "written_at"}
"""Columns that hold when something was done, or how long it took."""
KILLED_IN = ("r0001-rollout", "r0001-judge", "r0001-train", "r0002-rollout_guided", "r0002-release")
"""The staging folders of the stages in which the run is killed."""
SECONDS_INTO_A_STAGE = 0.2
"""Of the processor, from the first file of a stage to the kill."""
WORKERS = (1, 2)
"""Of the tries, in turn; the run that is not disturbed has one."""


def contents(warehouse: Warehouse, rounds: Sequence[int] = (0, 1, 2)) -> dict[str, list[str]]:
    """The rows of all tables but for times, in an order of their own."""
    found = {}
    for table in TABLES:
        rows = read_table(warehouse, table, rounds=rounds)
        kept = rows.select([name for name in rows.column_names if name not in VOLATILE])
        found[table] = sorted(map(repr, kept.to_pylist()))
    return found


@pytest.mark.timeout(900)
def test_a_run_that_is_killed_again_and_again_ends_like_one_that_is_not(small_run: Warehouse, tmp_path: Path) -> None:
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.flows.small_run", "trajmill.stages.models.embedded.model"])
    for number, stage in enumerate(KILLED_IN):
        process = _started(processes, tmp_path, WORKERS[number % len(WORKERS)])
        _kill_in(process, tmp_path, stage)
    last = _started(processes, tmp_path, workers=1)
    last.join()
    assert last.exitcode == 0
    found, wanted = contents(open_warehouse(tmp_path)), contents(small_run)
    assert {table: len(rows) for table, rows in found.items()} == {table: len(rows) for table, rows in wanted.items()}
    assert found == wanted
    for name in release_names(open_warehouse(tmp_path)):
        killed_release, whole = (verify_release(at, name) for at in (open_warehouse(tmp_path), small_run))
        assert (killed_release.files, killed_release.shards) == (whole.files, whole.shards)


def test_no_row_is_stored_twice_and_every_step_has_its_screens(small_run: Warehouse) -> None:
    screens = read_table(small_run, "screens", ["screen_id"])["screen_id"].to_pylist()
    assert len(set(screens)) == len(screens)
    steps = read_table(small_run, "steps", ["screen_before", "screen_after"])
    assert {name for column in steps.columns for name in column.to_pylist()} <= set(screens)
    for table, key in (("trajectories", "trajectory_id"), ("examples", "example_id"), ("queries", "query_id")):
        ids = read_table(small_run, table, [key])[key].to_pylist()
        assert len(set(ids)) == len(ids), table


def _started(processes: ForkServerContext, root: Path, workers: int) -> BaseProcess:
    """A process that does what is left of the run."""
    config = small_config(root)
    rollout = config.rollout.model_copy(update={"workers": workers})
    process = processes.Process(target=_run_and_exit, args=(config.model_copy(update={"rollout": rollout}),))
    process.start()
    return process


def _run_and_exit(config: Config) -> None:
    """All stages; then the process ends without waiting for those that draw, which nobody has told to end."""
    run_stages(config)
    os._exit(0)


def _kill_in(process: BaseProcess, root: Path, stage: str) -> None:
    while not any(root.glob(f"staging/*/{stage}")):
        assert process.is_alive()
        time.sleep(0.02)
    until = _processor_seconds(process) + SECONDS_INTO_A_STAGE
    while process.is_alive() and _processor_seconds(process) < until:
        time.sleep(0.02)
    assert process.is_alive()
    process.kill()
    process.join()


def _processor_seconds(process: BaseProcess) -> float:
    """The time of the processor that a process has had, which passes slowly on a busy machine."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
