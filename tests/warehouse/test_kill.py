import signal
from pathlib import Path
from random import Random

import pytest

from tests.warehouse.killed_stage import AT, EPISODES, FORKS, KEY, SCREENS, run_and_count
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.staging import Journal, read_marker

pytestmark = pytest.mark.slow

TRIALS = 6


def run(root: Path, kill_at: int) -> int | None:
    process = FORKS.Process(target=run_and_count, args=(root, kill_at))
    process.start()
    process.join()
    return process.exitcode


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
    assert read_marker(warehouse, AT.staging(warehouse), KEY) == {"episodes": EPISODES}
    assert sorted(read_table(warehouse, "step_verdicts")["index"].to_pylist()) == list(range(EPISODES))
    assert read_table(warehouse, "screens", ["screen_id"]).num_rows == len(WarehouseScreens(warehouse)) == SCREENS
