import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warehouse.store.killed_in_bucket import AT, KEY, RELEASE, ROWS, SCREENS, STEPS
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import verify_release
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.staging import read_marker

pytestmark = pytest.mark.slow


def start(call: str, caches: Path) -> subprocess.Popen[bytes]:
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
