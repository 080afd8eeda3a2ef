"""The work of a stage and its release, killed (SIGKILL, as `kill -9`) at its n-th call into C."""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pyarrow.parquet as pq

from tests.warehouse.samples import observation, stage_run, step_verdicts
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.schemas.tables.verdict import StepVerdict
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.delta_log import table_versions
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse, sole_worker
from trajmill.warehouse.releases import read_release, release_names, write_release
from trajmill.warehouse.screens import NewScreens, ScreenJournal, journal_path, stored_screen_journal
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.staging import Journal, JournalParts, mark_done, read_marker, stage_key

EPISODES, SCREENS = 8, 5
AT = stage_run("judge")
KEY, RELEASE = stage_key("judge", {}, []), "first"
JOURNAL = "episodes-00000.jsonl"


def with_environment(environment: Mapping[str, str], work: Callable[..., None], *arguments: object) -> None:
    """Do the work of a process that was forked from one with another environment."""
    os.environ.update(environment)
    work(*arguments)


def run_and_count(address: str, kill_at: int, told: Path) -> None:
    """Do the work, but die at the `kill_at`-th call; 0 lets it live.

    A process that comes to its end writes the number of its calls into the file `told`.
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
    warehouse = create_warehouse(address)
    with sole_worker(warehouse, AT.run_id):
        if read_marker(warehouse, AT.staging(warehouse), KEY) is None:
            _make_stage(warehouse)
        _make_release(warehouse)
    sys.setprofile(None)
    told.write_text(str(calls))


def _make_stage(warehouse: Warehouse) -> None:
    """Make the episodes that are in no journal, write their rows, commit them, and mark the stage as done."""
    paths = [journal_path(warehouse, AT, "00000"), AT.staging(warehouse) / JOURNAL]
    parts = JournalParts(warehouse, AT, paths)
    with closing(ScreenJournal(paths[0])) as screens, closing(Journal(paths[1])) as journal:
        done = {json.loads(record)["episode"] for record in journal.read()}
        for episode in range(EPISODES):
            if episode not in done:
                screens.append(observation(episode % SCREENS))
                journal.append(json.dumps({"episode": episode, "process": os.getpid()}).encode())
                parts.publish()
        episodes = [json.loads(record)["episode"] for record in journal.read()]
    _commit(warehouse, AT, [row for episode in episodes for row in step_verdicts(1, AT, episode)])
    mark_done(warehouse, AT.staging(warehouse), KEY, {"episodes": len(episodes)})


def _commit(warehouse: Warehouse, at: StageRun, rows: list[StepVerdict]) -> None:
    origin = Origin(round=at.round, run_id=at.run_id, code_version="test")
    screens = NewScreens(warehouse, at, origin, "draw-v1").write()
    verdicts = write_shard(warehouse, "step_verdicts", at, rows_to_arrow("step_verdicts", rows))
    commit_stage(warehouse, at, {"screens": screens, "step_verdicts": [verdicts]})


def _make_release(warehouse: Warehouse) -> None:
    folder = warehouse.release(RELEASE)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": [1, 2, 3]}), folder / "train.parquet")
    (folder / "README.md").write_text("# card\n")
    is_made = RELEASE in release_names(warehouse)
    versions = read_release(warehouse, RELEASE).tables if is_made else table_versions(warehouse)
    origin = Origin(round=AT.round, run_id=AT.run_id, code_version="test")
    write_release(warehouse, RELEASE, origin, versions, "2026-11-20T00:00:00Z")


def commit_some(run_id: str, rounds: int, url: str) -> None:
    warehouse = create_warehouse(url)
    for number in range(1, rounds + 1):
        at = stage_run("judge", number, run_id)
        with stored_screen_journal(warehouse, at, "00000") as journal:
            journal.append(*map(observation, range(SCREENS)))
        _commit(warehouse, at, step_verdicts(EPISODES, at))


# Children are forked from a clean process: deltalake's threads do not survive a fork of this one.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.warehouse.killed"])
