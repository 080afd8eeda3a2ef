"""Processes at work in a bucket: killed after a step of a commit or of a release, or at the same time as others."""

import os
import signal
from collections.abc import Callable, Mapping
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
from trajmill.warehouse.screens import NewScreens, stored_screen_journal
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.staging import mark_done, read_marker
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
