"""`kill -9` at any moment, then the same command again, also with other workers: the same result as without."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.flows.small_run import run_stages, small_config
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import release_names, verify_release

pytestmark = pytest.mark.slow

VOLATILE = {"wall_ms", "environment_ms", "latency_ms", "stages", "written_at"}
"""Columns that hold when something was done, or how long it took."""
SHORTEST_SECONDS = 0.7
FEWEST_KILLS = 4
WORKERS = (1, 3, 2)
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
    processes.set_forkserver_preload(["tests.flows.small_run"])
    seconds, killed = SHORTEST_SECONDS, 0
    while not _finishes(processes, tmp_path, seconds, WORKERS[killed % len(WORKERS)]):
        seconds, killed = seconds * 1.3, killed + 1
    assert killed >= FEWEST_KILLS
    found, wanted = contents(open_warehouse(tmp_path)), contents(small_run)
    assert {table: len(rows) for table, rows in found.items()} == {table: len(rows) for table, rows in wanted.items()}
    assert found == wanted
    for name in release_names(open_warehouse(tmp_path)):
        assert verify_release(open_warehouse(tmp_path), name).files == verify_release(small_run, name).files


def test_no_row_is_stored_twice_and_every_step_has_its_screens(small_run: Warehouse) -> None:
    screens = read_table(small_run, "screens", ["screen_id"])["screen_id"].to_pylist()
    assert len(set(screens)) == len(screens)
    steps = read_table(small_run, "steps", ["screen_before", "screen_after"])
    assert {name for column in steps.columns for name in column.to_pylist()} <= set(screens)
    for table, key in (("trajectories", "trajectory_id"), ("examples", "example_id"), ("queries", "query_id")):
        ids = read_table(small_run, table, [key])[key].to_pylist()
        assert len(set(ids)) == len(ids), table


def _finishes(processes: ForkServerContext, root: Path, seconds: float, workers: int) -> bool:
    """Run until done or for some seconds, then kill; whether it was done."""
    config = small_config(root)
    rollout = config.rollout.model_copy(update={"workers": workers})
    process = processes.Process(target=run_stages, args=(config.model_copy(update={"rollout": rollout}),))
    process.start()
    process.join(seconds)
    done = process.exitcode == 0
    assert process.exitcode in (0, None)
    process.kill()
    process.join()
    return done
