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
    JOURNAL,
    KEY,
    RELEASE,
    SCREENS,
    commit_some,
    run_and_count,
    with_environment,
)
from tests.warehouse.test_screens import expect_stored
from trajmill.warehouse.layout import create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import verify_release
from trajmill.warehouse.staging import Journal, read_marker, stored_journals

pytestmark = pytest.mark.slow

TRIALS = 4


def start(caches: Path, work: Callable[..., None], *arguments: object) -> ForkServerProcess:
    environment = os.environ | {"XDG_CACHE_HOME": str(caches)}
    process = FORKS.Process(target=with_environment, args=(environment, work, *arguments))
    process.start()
    return process


def ended(process: ForkServerProcess) -> int | None:
    process.join()
    return process.exitcode


def journaled(address: str) -> list[bytes]:
    paths = stored_journals(create_warehouse(address), AT, JOURNAL)
    return [record for path in paths for record in Journal(path).read()]


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_killed_twice_and_started_again(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    told, began = tmp_path / "calls", 0
    base = str(tmp_path / "root" if kind == "folder" else request.getfixturevalue("bucket_url"))

    def run(address: str, kill_at: int) -> int | None:
        nonlocal began
        began += 1
        return ended(start(tmp_path / f"caches-{began}", run_and_count, address, kill_at, told))

    assert run(f"{base}-whole", 0) == 0
    calls = int(told.read_text())
    for trial in range(TRIALS):
        address, random = f"{base}-{trial}", Random(trial)
        # One kill in each stretch of the work, then one anywhere.
        first = random.randrange(calls * trial // TRIALS, calls * (trial + 1) // TRIALS) + 1
        assert run(address, first) == -signal.SIGKILL
        kept = journaled(address)
        assert run(address, random.randrange(calls) + 1) in (0, -signal.SIGKILL)
        assert journaled(address)[: len(kept)] == kept
        assert run(address, 0) == 0
        warehouse = open_warehouse(address)
        assert read_marker(warehouse, AT.staging(warehouse), KEY) == {"episodes": EPISODES}
        assert sorted(read_table(warehouse, "step_verdicts")["index"].to_pylist()) == list(range(EPISODES))
        expect_stored(warehouse, range(SCREENS))
        assert [file.path for file in verify_release(warehouse, RELEASE).files] == ["README.md", "train.parquet"]


@pytest.mark.parametrize("runs", [("run-a", "run-b"), ("run-a", "run-a")], ids=["two runs", "one run"])
def test_two_processes_commit_at_the_same_time(bucket_url: str, tmp_path: Path, runs: tuple[str, str]) -> None:
    rounds = 2
    both = [start(tmp_path / f"{number}", commit_some, run, rounds, bucket_url) for number, run in enumerate(runs)]
    assert [ended(process) for process in both] == [0, 0]
    warehouse = open_warehouse(bucket_url)
    rows = read_table(warehouse, "step_verdicts", ["run_id", "round", "index"]).to_pylist()
    assert len(rows) == len({tuple(row.values()) for row in rows}) == EPISODES * rounds * len(set(runs))
    assert read_table(warehouse, "screens", ["screen_id"]).num_rows == SCREENS
