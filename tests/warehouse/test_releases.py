from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.warehouse.samples import commit_rows, stage_run, step_verdicts
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.warehouse.delta_log import committed_files, table_versions
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import MANIFEST, Release, read_release, release_names, verify_release, write_release
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.staging import mark_done
from trajmill.warehouse.upkeep.vacuum import vacuum


def export(warehouse: Warehouse, name: str, rows: int = 3) -> None:
    folder = warehouse.release(name) / "trl"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": list(range(rows))}), folder / "train.parquet")
    (warehouse.release(name) / "README.md").write_text("# card\n")


def release(warehouse: Warehouse, name: str, created_at: str = "2026-11-20T00:00:00Z") -> Release:
    return write_release(
        warehouse,
        name,
        tables=table_versions(warehouse),
        run_id="run-a",
        round=1,
        code_version="test",
        created_at=created_at,
    )


def test_a_manifest_names_files_and_table_versions(warehouse: Warehouse) -> None:
    commit_rows(warehouse, stage_run("judge"), *step_verdicts(5, stage_run("judge")))
    export(warehouse, "first")
    made = release(warehouse, "first")
    assert [(file.path, file.rows) for file in made.files] == [("README.md", None), ("trl/train.parquet", 3)]
    assert made.tables == {"step_verdicts": 1}
    assert read_release(warehouse, "first") == verify_release(warehouse, "first") == made
    commit_rows(warehouse, stage_run("judge", 2), *step_verdicts(5, stage_run("judge", 2)))
    assert read_table(warehouse, "step_verdicts", version=made.tables["step_verdicts"]).num_rows == 5


def test_a_release_is_not_there_before_its_manifest(warehouse: Warehouse) -> None:
    export(warehouse, "first")
    assert release_names(warehouse) == []
    with pytest.raises(BadInputError, match=r"release first: there is none .* there are: none"):
        read_release(warehouse, "first")


def test_releasing_again_is_a_no_op_and_never_a_change(warehouse: Warehouse) -> None:
    export(warehouse, "first")
    made = release(warehouse, "first")
    assert release(warehouse, "first", created_at="later") == made
    export(warehouse, "first", rows=4)
    with pytest.raises(BadInputError, match="releases never change"):
        release(warehouse, "first")
    assert read_release(warehouse, "first") == made


def test_changed_and_missing_files_are_found(warehouse: Warehouse) -> None:
    export(warehouse, "first")
    release(warehouse, "first")
    (warehouse.release("first") / "README.md").write_text("# cart\n")
    with pytest.raises(BadInputError, match=r"README\.md: changed since release first"):
        verify_release(warehouse, "first")
    (warehouse.release("first") / "README.md").unlink()
    with pytest.raises(BadInputError, match=r"README\.md: missing"):
        verify_release(warehouse, "first")
    manifest = warehouse.release("first") / MANIFEST
    manifest.write_text(manifest.read_text().replace('"round": 1', '"round": 2'))
    with pytest.raises(BadInputError, match=r"manifest\.json:1: changed since release first"):
        read_release(warehouse, "first")
    manifest.write_text("{")
    with pytest.raises(BadInputError, match=r"manifest\.json:1: not a release's manifest"):
        verify_release(warehouse, "first")


DAY = 86_400.0
NOW = 2_000_000_000.0
ROWS = step_verdicts(5, stage_run("judge"))


def aged(path: Path, days: float) -> Path:
    os.utime(path, (NOW - days * DAY, NOW - days * DAY))
    return path


def test_vacuum_takes_old_orphans_only(warehouse: Warehouse) -> None:
    folder = warehouse.table("step_verdicts")
    committed, killed, running = (stage_run("judge", run_id=name) for name in ("committed", "killed", "running"))
    commit_rows(warehouse, committed, *step_verdicts(5, committed))
    for at in (killed, running):
        data = read_table(warehouse, "step_verdicts")
        aged(folder / write_shard(warehouse, "step_verdicts", at, data).path, days=9)
    running.staging(warehouse).mkdir(parents=True)
    (temporary := folder / f".{killed.shard_name('00001')}.123.tmp").touch()
    (views := warehouse.root / ".trajmill.duckdb.123.tmp").touch()
    young = folder / killed.shard_name("00002")
    young.touch()
    for path in (*committed_files(warehouse, "step_verdicts"), temporary, views):
        aged(path, days=9)
    aged(young, days=1)
    assert vacuum(warehouse, older_than_days=7, now=NOW) == sorted([views, temporary, folder / killed.shard_name()])
    assert {path.name for path in folder.glob("*.parquet")} == {
        committed.shard_name(), running.shard_name(), killed.shard_name("00002")
    }  # fmt: skip
    assert read_table(warehouse, "step_verdicts").num_rows == 5


def test_vacuum_takes_what_another_split_of_a_finished_stage_has_left(warehouse: Warehouse) -> None:
    at, folder = stage_run("judge"), warehouse.table("step_verdicts")
    left = (
        folder / write_shard(warehouse, "step_verdicts", at, rows_to_arrow("step_verdicts", ROWS), "00001-other").path
    )
    commit_rows(warehouse, at, *ROWS)
    aged(left, days=9)
    at.staging(warehouse).mkdir(parents=True)
    assert vacuum(warehouse, older_than_days=7, now=NOW) == []
    mark_done(at.staging(warehouse), "key", {})
    assert vacuum(warehouse, older_than_days=7, now=NOW) == [left]
    assert read_table(warehouse, "step_verdicts").num_rows == len(ROWS)


def test_vacuum_keeps_the_versions_that_releases_name(warehouse: Warehouse) -> None:
    from deltalake import DeltaTable

    table = "step_verdicts"
    for number in (1, 2):
        commit_rows(warehouse, stage_run("judge", number), *step_verdicts(5, stage_run("judge", number)))
    export(warehouse, "first")
    named = release(warehouse, "first").tables[table]
    files = committed_files(warehouse, table)
    commit_rows(warehouse, stage_run("judge", 3), *step_verdicts(5, stage_run("judge", 3)))
    extra = set(committed_files(warehouse, table)) - set(files)
    # Somebody compacts the table with a tool of their own: no file of ours is in the newest version any more.
    DeltaTable(str(warehouse.table(table))).optimize.compact()
    for path in (*files, *extra):
        aged(path, days=9)
    assert set(vacuum(warehouse, older_than_days=7, now=NOW)) == extra
    assert read_table(warehouse, table, version=named).num_rows == 10
    assert read_table(warehouse, table).num_rows == 15
    assert json.loads((warehouse.release("first") / MANIFEST).read_text())["tables"] == {table: named}
