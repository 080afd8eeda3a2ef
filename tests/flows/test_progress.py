from __future__ import annotations

import io
import shutil
from pathlib import Path

from rich.console import Console

from trajmill.flows.progress import ConsoleWatcher, StageCounter, watched_by, watched_work
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.staging import Progress, ShardProgress, plan_items


def test_without_a_terminal_a_stage_is_one_line() -> None:
    words = io.StringIO()
    with ConsoleWatcher(Console(file=words, width=100)).stage(2, "judge", 1500) as advance:
        advance(1000)
        advance(500)
    assert words.getvalue().split()[:5] == ["round", "2", "judge", "1,500", "rows"]
    assert words.getvalue().count("\n") == 1


def test_two_stages_at_the_same_time_share_one_display() -> None:
    words = io.StringIO()
    watcher = ConsoleWatcher(Console(file=words, width=100, force_terminal=True))
    with watcher.stage(1, "train", 3), watcher.stage(2, "rollout", 5) as rollout:
        rollout(5)
    assert "round 1  train" in words.getvalue() and "round 2  rollout" in words.getvalue()
    with watcher.stage(1, "evaluate", 7) as again:
        again(7)
    assert words.getvalue().endswith("\x1b[2K") and "7/7" in words.getvalue()


def test_a_total_that_becomes_known_is_shown_and_all_is_done_when_the_files_go(tmp_path: Path) -> None:
    words = io.StringIO()
    warehouse, at = create_warehouse(tmp_path), StageRun("run", 3, "judge")
    folder = at.staging(warehouse)
    counter = StageCounter(warehouse, at, None)
    with (
        watched_by(ConsoleWatcher(Console(file=words, width=100, force_terminal=True))),
        watched_work(warehouse, at, "judge"),
    ):
        plan_items(folder, 12)
        ShardProgress(folder, "00000").fill(11)
        assert counter.progress() == Progress(11, 12)
    # The last one is counted, and the files are removed, between two looks.
    shutil.rmtree(folder)
    assert "11/12" in words.getvalue()
    assert counter.progress() == Progress(12, 12)
