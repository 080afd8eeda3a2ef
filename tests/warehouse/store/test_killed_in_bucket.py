"""Real processes in a bucket, killed after each step, at work together, or stopped: nothing lost, nothing twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.warehouse.store.killed_in_bucket import AT, KEY, RELEASE, ROWS, SCREENS, STEPS
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import verify_release
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.staging import read_marker
from trajmill.warehouse.store.address import store_at
from trajmill.warehouse.store.lease import leased

pytestmark = pytest.mark.slow


def start(call: str, caches: Path) -> subprocess.Popen[bytes]:
    """A process of its own, with a disk of its own."""
    code = f"from tests.warehouse.store import killed_in_bucket as work; work.{call}"
    return subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"XDG_CACHE_HOME": str(caches)})


def test_killed_after_each_step_of_a_commit_and_a_release(bucket_url: str, tmp_path: Path) -> None:
    for step in STEPS:
        assert start(f"kill_after({step!r}, {bucket_url!r})", tmp_path / step).wait() == -signal.SIGKILL, step
    assert start(f"kill_after('', {bucket_url!r})", tmp_path / "whole").wait() == 0
    check_whole(bucket_url)


def check_whole(url: str) -> None:
    """Nothing of the stage and of the release is lost, and nothing is there twice."""
    warehouse = open_warehouse(url)
    verdicts = read_table(warehouse, "step_verdicts", ["index"])["index"].to_pylist()
    assert sorted(verdicts) == sorted(set(verdicts)) and len(verdicts) == ROWS
    assert read_table(warehouse, "screens", ["screen_id"]).num_rows == len(WarehouseScreens(warehouse)) == SCREENS
    assert read_marker(warehouse, AT.staging(warehouse), KEY) == {"rows": ROWS}
    assert [file.path for file in verify_release(warehouse, RELEASE).files] == ["README.md", "train.parquet"]


@pytest.mark.parametrize("runs", [("run-a", "run-b"), ("run-a", "run-a")], ids=["two runs", "one run"])
def test_two_processes_commit_at_the_same_time(bucket_url: str, tmp_path: Path, runs: tuple[str, str]) -> None:
    rounds = 2
    both = [start(f"commit_some({run!r}, {rounds}, {bucket_url!r})", tmp_path / f"{n}") for n, run in enumerate(runs)]
    assert [process.wait() for process in both] == [0, 0]
    warehouse = open_warehouse(bucket_url)
    rows = read_table(warehouse, "step_verdicts", ["run_id", "round", "index"]).to_pylist()
    assert len(rows) == len({tuple(row.values()) for row in rows}) == ROWS * rounds * len(set(runs))
    assert read_table(warehouse, "screens", ["screen_id"]).num_rows == SCREENS


def test_a_holder_that_was_stopped_finds_its_lease_taken(bucket_url: str, tmp_path: Path) -> None:
    store, ready = store_at(bucket_url), tmp_path / "ready"
    stopped = start(f"hold_and_stand_still({str(ready)!r}, {bucket_url!r})", tmp_path / "disk")
    while not ready.exists():
        assert stopped.poll() is None
        time.sleep(0.05)
    stopped.send_signal(signal.SIGSTOP)
    with leased(store, "staging/run-a/lock", wait=True):
        Path(f"{ready}-go").touch()
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait() == 3
    assert "its lease expired" in Path(f"{ready}-lost").read_text()
