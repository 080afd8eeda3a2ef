"""A small stage that kills itself (SIGKILL, as `kill -9`) at its n-th call into C, for `test_kill.py`."""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tests.warehouse.samples import observation, stage_run, step_verdicts
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.screens import NewScreens, ScreenJournal, journal_path
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.staging import Journal, mark_done, read_marker, stage_key

# Children are forked from a clean process: deltalake's threads do not survive a fork of this one.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.warehouse.killed_stage", "tests.warehouse.store.killed_in_bucket"])
EPISODES = 12
SCREENS = 7
AT = stage_run("judge")
KEY = stage_key("judge", {}, [])


def run_and_count(root: Path, kill_at: int) -> None:
    """Do the stage's work, but die at the `kill_at`-th call; 0 lets it live.

    A process that comes to its end writes the number of its calls beside `root`.
    """
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        if event in ("c_call", "c_return") and "/warehouse/" in frame.f_code.co_filename:
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    profiler: Callable[[FrameType, str, object], None] = count
    sys.setprofile(profiler)
    _run(root)
    sys.setprofile(None)
    root.with_suffix(".calls").write_text(str(calls))


def _run(root: Path) -> None:
    warehouse = create_warehouse(root)
    folder = AT.staging(warehouse)
    if read_marker(warehouse, folder, KEY) is not None:
        return
    journal, screens = Journal(folder / "episodes-00000.jsonl"), ScreenJournal(journal_path(warehouse, AT, "00000"))
    done = {json.loads(record)["episode"] for record in journal.read()}
    for episode in range(EPISODES):
        if episode not in done:
            screens.append(observation(episode % SCREENS))
            journal.append(json.dumps({"episode": episode, "process": os.getpid()}).encode())
    episodes = [json.loads(record)["episode"] for record in journal.read()]
    rows = rows_to_arrow("step_verdicts", [row for n in episodes for row in step_verdicts(1, AT, n)])
    origin = Origin(round=AT.round, run_id=AT.run_id, code_version="test")
    files = {
        "screens": NewScreens(warehouse, AT, origin, "draw-v1").write(),
        "step_verdicts": [write_shard(warehouse, "step_verdicts", AT, rows)],
    }
    commit_stage(warehouse, AT, files)
    mark_done(warehouse, folder, KEY, {"episodes": len(episodes)})
