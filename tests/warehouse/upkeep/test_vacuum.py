import os
from pathlib import Path

import pytest

from tests.warehouse.samples import commit_rows, stage_run, step_verdicts
from tests.warehouse.test_releases import export, release
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.staging import mark_done
from trajmill.warehouse.upkeep import unused_files, vacuum

pytestmark = pytest.mark.slow

DAY = 86_400.0
NOW = 2_000_000_000.0
ROWS = step_verdicts(5, stage_run("judge"))


def vacuumed(warehouse: Warehouse) -> list[Path]:
    return [warehouse.root / file.name for file in vacuum(warehouse, older_than_days=7, now=NOW)]


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
    assert vacuumed(warehouse) == sorted([views, temporary, folder / killed.shard_name()])
    assert {path.name for path in folder.glob("*.parquet")} == {
        committed.shard_name(), running.shard_name(), killed.shard_name("00002")
    }  # fmt: skip
    assert read_table(warehouse, "step_verdicts").num_rows == 5


def test_the_views_that_a_reader_writes_stay_however_young_vacuum_takes(warehouse: Warehouse) -> None:
    for name, days in ((".trajmill.duckdb.1.tmp", 0.01), (".trajmill.duckdb.2.tmp", 0.1)):
        (warehouse.root / name).touch()
        aged(warehouse.root / name, days)
    assert [file.name for file in vacuum(warehouse, older_than_days=0, now=NOW)] == [".trajmill.duckdb.2.tmp"]


def test_vacuum_takes_what_another_split_of_a_finished_stage_has_left(warehouse: Warehouse) -> None:
    at, folder = stage_run("judge"), warehouse.table("step_verdicts")
    left = (
        folder / write_shard(warehouse, "step_verdicts", at, rows_to_arrow("step_verdicts", ROWS), "00001-other").path
    )
    commit_rows(warehouse, at, *ROWS)
    aged(left, days=9)
    at.staging(warehouse).mkdir(parents=True)
    assert vacuumed(warehouse) == []
    mark_done(warehouse, at.staging(warehouse), "key", {})
    assert vacuumed(warehouse) == [left]
    assert read_table(warehouse, "step_verdicts").num_rows == len(ROWS)


def test_vacuum_takes_what_killed_processes_left_elsewhere(warehouse: Warehouse) -> None:
    export(warehouse, "first")
    release(warehouse, "first")
    kept = {path for path in warehouse.root.rglob("*") if path.is_file()}
    done, running = stage_run("judge").staging(warehouse), stage_run("guide").staging(warehouse)
    mark_done(warehouse, done, "key", {})
    left = [
        warehouse.release("half") / "trl" / "train.parquet",
        warehouse.root / "models" / ".policy-1.unfinished" / "model.safetensors",
        warehouse.root / ".warehouse.json.123.tmp",
        done / "shard-1" / "done.json",
        done / "episodes-1.jsonl",
    ]
    kept |= {done / "done.json", running / "episodes-1.jsonl", running.parent / "lock"}
    for path in (*left, running / "episodes-1.jsonl", running.parent / "lock"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for path in (*left, *kept):
        aged(path, days=9)
    found = unused_files(warehouse, older_than_days=7, now=NOW)
    assert [file.name for file in found] == sorted(warehouse.name(path) for path in left)
    assert sorted(vacuumed(warehouse)) == sorted(left)
    assert {path for path in warehouse.root.rglob("*") if path.is_file()} == kept
    assert not warehouse.release("half").exists() and not (done / "shard-1").exists()
