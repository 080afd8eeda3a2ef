"""Work that is killed (SIGKILL, as `kill -9`): after a step of it in a bucket, at its n-th call into C in a folder."""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from tests.warehouse.samples import observation, stage_run, step_verdicts
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.warehouse import releases
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.delta_log import table_versions
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse, sole_worker
from trajmill.warehouse.releases import write_release
from trajmill.warehouse.screens import NewScreens, ScreenJournal, journal_path, stored_screen_journal
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.staging import Journal, mark_done, read_marker, stage_key
from trajmill.warehouse.store.bucket import BucketStore

ROWS, SCREENS = 6, 3
AT = stage_run("judge")
KEY, RELEASE = "key", "first"
_STAGE = ("screens written", "rows written", "screens committed", "rows committed", "marked")
STEPS = (*_STAGE, "release file 1", "release file 2", "manifest")
"""After each of them a process is killed."""


def with_environment(environment: Mapping[str, str], work: Callable[..., None], *arguments: object) -> None:
    """Do the work of a process that was forked from one with another environment."""
    os.environ.update(environment)
    work(*arguments)


def kill_after(step: str, url: str) -> None:
    """Do the stage and the release, but die after a step; an empty step lets the process live."""

    def after(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    _watch_store(after)
    warehouse = create_warehouse(url)
    with sole_worker(warehouse, AT.run_id):
        if read_marker(warehouse, AT.staging(warehouse), KEY) is None:
            make_stage(warehouse, AT, after)
        make_release(warehouse)


def make_stage(warehouse: Warehouse, at: StageRun, after: Callable[[str], None] = lambda step: None) -> None:
    """Write a few screens and verdicts, commit them, and mark the stage as done."""
    with stored_screen_journal(warehouse, at, "00000") as journal:
        for number in range(SCREENS):
            journal.append(observation(number))
    origin = Origin(round=at.round, run_id=at.run_id, code_version="test")
    screens = NewScreens(warehouse, at, origin, "draw-v1").write()
    after("screens written")
    rows = rows_to_arrow("step_verdicts", step_verdicts(ROWS, at))
    verdicts = write_shard(warehouse, "step_verdicts", at, rows)
    after("rows written")
    commit_stage(warehouse, at, {"screens": screens, "step_verdicts": [verdicts]})
    mark_done(warehouse, at.staging(warehouse), KEY, {"rows": ROWS})
    after("marked")


def make_release(warehouse: Warehouse) -> None:
    folder = warehouse.release(RELEASE)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": [1, 2, 3]}), folder / "train.parquet")
    (folder / "README.md").write_text("# card\n")
    versions = releases.read_release(warehouse, RELEASE).tables if RELEASE in releases.release_names(warehouse) else {}
    lineage: dict[str, Any] = {"run_id": AT.run_id, "code_version": "test", "created_at": "2026-11-20T00:00:00Z"}
    write_release(warehouse, RELEASE, tables=versions or table_versions(warehouse), round=1, **lineage)


def _watch_store(after: Callable[[str], None]) -> None:
    publish, put = BucketStore.publish, BucketStore.put
    files = 0

    def published(store: BucketStore, name: str) -> None:
        nonlocal files
        publish(store, name)
        if name.startswith("releases/"):
            files += 1
            after(f"release file {files}")

    def was_put(store: BucketStore, name: str, data: bytes) -> None:
        if name.endswith("_log_sizes.json"):
            after("screens committed" if "screens" in name else "rows committed")
        put(store, name, data)
        if name.endswith(releases.MANIFEST):
            after("manifest")

    patch.object(BucketStore, "publish", published).start()
    patch.object(BucketStore, "put", was_put).start()


def commit_some(run_id: str, rounds: int, url: str) -> None:
    warehouse = create_warehouse(url)
    for number in range(1, rounds + 1):
        make_stage(warehouse, stage_run("judge", number, run_id))


# Children are forked from a clean process: deltalake's threads do not survive a fork of this one.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.warehouse.killed"])
EPISODES = 12
STAGE_SCREENS = 7
STAGE_KEY = stage_key("judge", {}, [])


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
    if read_marker(warehouse, folder, STAGE_KEY) is not None:
        return
    journal, screens = Journal(folder / "episodes-00000.jsonl"), ScreenJournal(journal_path(warehouse, AT, "00000"))
    done = {json.loads(record)["episode"] for record in journal.read()}
    for episode in range(EPISODES):
        if episode not in done:
            screens.append(observation(episode % STAGE_SCREENS))
            journal.append(json.dumps({"episode": episode, "process": os.getpid()}).encode())
    episodes = [json.loads(record)["episode"] for record in journal.read()]
    rows = rows_to_arrow("step_verdicts", [row for n in episodes for row in step_verdicts(1, AT, n)])
    origin = Origin(round=AT.round, run_id=AT.run_id, code_version="test")
    files = {
        "screens": NewScreens(warehouse, AT, origin, "draw-v1").write(),
        "step_verdicts": [write_shard(warehouse, "step_verdicts", AT, rows)],
    }
    commit_stage(warehouse, AT, files)
    mark_done(warehouse, folder, STAGE_KEY, {"episodes": len(episodes)})
