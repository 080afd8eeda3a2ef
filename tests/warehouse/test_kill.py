import os
import signal
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random

import pytest

from tests.warehouse.killed import (
    AT,
    EPISODES,
    FORKS,
    KEY,
    RELEASE,
    ROWS,
    SCREENS,
    STAGE_KEY,
    STAGE_SCREENS,
    STEPS,
    commit_some,
    kill_after,
    run_and_count,
    with_environment,
)
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import verify_release
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.staging import Journal, read_marker

pytestmark = pytest.mark.slow

TRIALS = 6


def run(root: Path, kill_at: int) -> int | None:
    return ended(start(root.with_suffix(".caches"), run_and_count, root, kill_at))


def journaled(root: Path) -> list[bytes]:
    return list(Journal(root / "staging" / AT.run_id / "r0001-judge" / "episodes-00000.jsonl").read())


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> int:
    root = tmp_path_factory.mktemp("whole") / "warehouse"
    assert run(root, 0) == 0
    return int(root.with_suffix(".calls").read_text())


@pytest.mark.parametrize("trial", range(TRIALS))
def test_killed_twice_and_started_again(tmp_path: Path, calls: int, trial: int) -> None:
    root, random = tmp_path / "warehouse", Random(trial)
    # One kill in each stretch of the work, then one anywhere.
    first = random.randrange(calls * trial // TRIALS, calls * (trial + 1) // TRIALS) + 1
    assert run(root, first) == -signal.SIGKILL
    kept = journaled(root)
    assert run(root, random.randrange(calls) + 1) in (0, -signal.SIGKILL)
    assert journaled(root)[: len(kept)] == kept
    assert run(root, 0) == 0

    warehouse = open_warehouse(root)
    assert read_marker(warehouse, AT.staging(warehouse), STAGE_KEY) == {"episodes": EPISODES}
    assert sorted(read_table(warehouse, "step_verdicts")["index"].to_pylist()) == list(range(EPISODES))
    assert read_table(warehouse, "screens", ["screen_id"]).num_rows == len(WarehouseScreens(warehouse)) == STAGE_SCREENS


def start(caches: Path, work: Callable[..., None], *arguments: object) -> ForkServerProcess:
    environment = os.environ | {"XDG_CACHE_HOME": str(caches)}
    process = FORKS.Process(target=with_environment, args=(environment, work, *arguments))
    process.start()
    return process


def ended(process: ForkServerProcess) -> int | None:
    process.join()
    return process.exitcode


def test_killed_after_each_step_of_a_commit_and_a_release(bucket_url: str, tmp_path: Path) -> None:
    for step in STEPS:
        assert ended(start(tmp_path / step, kill_after, step, bucket_url)) == -signal.SIGKILL, step
    assert ended(start(tmp_path / "whole", kill_after, "", bucket_url)) == 0
    warehouse = open_warehouse(bucket_url)
    verdicts = read_table(warehouse, "step_verdicts", ["index"])["index"].to_pylist()
    assert sorted(verdicts) == sorted(set(verdicts)) and len(verdicts) == ROWS
    assert read_table(warehouse, "screens", ["screen_id"]).num_rows == len(WarehouseScreens(warehouse)) == SCREENS
    assert read_marker(warehouse, AT.staging(warehouse), KEY) == {"rows": ROWS}
    assert [file.path for file in verify_release(warehouse, RELEASE).files] == ["README.md", "train.parquet"]


@pytest.mark.parametrize("runs", [("run-a", "run-b"), ("run-a", "run-a")], ids=["two runs", "one run"])
def test_two_processes_commit_at_the_same_time(bucket_url: str, tmp_path: Path, runs: tuple[str, str]) -> None:
    rounds = 2
    both = [start(tmp_path / f"{number}", commit_some, run, rounds, bucket_url) for number, run in enumerate(runs)]
    assert [ended(process) for process in both] == [0, 0]
    warehouse = open_warehouse(bucket_url)
    rows = read_table(warehouse, "step_verdicts", ["run_id", "round", "index"]).to_pylist()
    assert len(rows) == len({tuple(row.values()) for row in rows}) == ROWS * rounds * len(set(runs))
    assert read_table(warehouse, "screens", ["screen_id"]).num_rows == SCREENS
