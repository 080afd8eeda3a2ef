import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.warehouse.samples import commit_rounds, commit_rows, stage_run, step_verdicts
from tests.warehouse.test_releases import export, export_and_release, release
from tests.warehouse.test_screens import commit_screens, expect
from trajmill.warehouse.commit import commit
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import DataFile, replace_shard, write_shard
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.staging import mark_done
from trajmill.warehouse.upkeep import compact, compact_table, maintain, unused_files, vacuum

pytestmark = pytest.mark.slow

DAY = 86_400.0
NOW = 2_000_000_000.0


def vacuumed(warehouse: Warehouse) -> list[Path]:
    return [warehouse.root / file.name for file in vacuum(warehouse, older_than_days=7, now=NOW)]


def aged(path: Path, days: float) -> Path:
    os.utime(path, (NOW - days * DAY, NOW - days * DAY))
    return path


def test_vacuum_takes_old_orphans_only(warehouse: Warehouse) -> None:
    folder = warehouse.table("step_verdicts")
    names = ("committed", "killed", "running", "finished")
    committed, killed, running, finished = (stage_run("judge", run_id=name) for name in names)
    commit_rows(warehouse, committed, *step_verdicts(5, committed))
    for at in (killed, running, finished):
        data = read_table(warehouse, "step_verdicts")
        aged(folder / write_shard(warehouse, "step_verdicts", at, data).path, days=9)
    running.staging(warehouse).mkdir(parents=True)
    mark_done(warehouse, finished.staging(warehouse), "key", {})
    (temporary := folder / f".{killed.shard_name('00001')}.123.tmp").touch()
    (views := warehouse.root / ".trajmill.duckdb.123.tmp").touch()
    young = folder / killed.shard_name("00002")
    young.touch()
    for path in (*committed_files(warehouse, "step_verdicts"), temporary, views):
        aged(path, days=9)
    aged(young, days=1)
    left = [folder / at.shard_name() for at in (killed, finished)]
    assert vacuumed(warehouse) == sorted([views, temporary, *left])
    assert {path.name for path in folder.glob("*.parquet")} == {
        committed.shard_name(), running.shard_name(), killed.shard_name("00002")
    }  # fmt: skip
    assert read_table(warehouse, "step_verdicts").num_rows == 5


def test_the_views_that_a_reader_writes_stay_however_young_vacuum_takes(warehouse: Warehouse) -> None:
    for name, days in ((".trajmill.duckdb.1.tmp", 0.01), (".trajmill.duckdb.2.tmp", 0.1)):
        (warehouse.root / name).touch()
        aged(warehouse.root / name, days)
    assert [file.name for file in vacuum(warehouse, older_than_days=0, now=NOW)] == [".trajmill.duckdb.2.tmp"]


def test_vacuum_takes_what_killed_processes_left_elsewhere(warehouse: Warehouse) -> None:
    export_and_release(warehouse, "first")
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


TABLE = "step_verdicts"
COUNT = f"SELECT count(*) AS n FROM {TABLE}"


@pytest.fixture(scope="module")
def twelve_commits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = create_warehouse(tmp_path_factory.mktemp("twelve") / "root")
    commit_rounds(warehouse, 12, 5)
    return warehouse.root


@pytest.fixture
def twelve_rounds(twelve_commits: Path, tmp_path: Path) -> Warehouse:
    return open_warehouse(Path(shutil.copytree(twelve_commits, tmp_path / "twelve")))


def test_rows_keep_their_values_and_order_and_a_stage_committed_again_adds_nothing(twelve_rounds: Warehouse) -> None:
    before = read_table(twelve_rounds, TABLE)
    assert compact(twelve_rounds) == [(TABLE, 12, 1)]
    assert read_table(twelve_rounds, TABLE).equals(before)
    assert run_sql(twelve_rounds, COUNT).to_pylist() == [{"n": 60}]
    assert read_table(twelve_rounds, TABLE, rounds=[7]).num_rows == 5
    assert compact(twelve_rounds) == [], "one file is not small files"
    at, rows = stage_run("judge", 3), read_table(twelve_rounds, TABLE, rounds=[3])
    compact(twelve_rounds)
    commit(twelve_rounds, TABLE, [write_shard(twelve_rounds, TABLE, at, rows)], at)
    assert read_table(twelve_rounds, TABLE).num_rows == 60


def test_a_vacuum_waits_for_joined_files(twelve_rounds: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def vacuumed() -> None:
        vacuum(twelve_rounds, older_than_days=0, now=time.time() + 10)

    def written(*arguments: Any) -> DataFile:
        file = replace_shard(*arguments)
        beside.start()
        # It has time to delete the file, which nothing names yet.
        beside.join(timeout=1.0)
        return file

    beside = threading.Thread(target=vacuumed)
    monkeypatch.setattr("trajmill.warehouse.upkeep.replace_shard", written)
    before = read_table(twelve_rounds, TABLE)
    compact(twelve_rounds)
    beside.join()
    assert read_table(twelve_rounds, TABLE).equals(before)


def test_a_released_version_stays_until_its_release_is_dropped(twelve_rounds: Warehouse) -> None:
    export(twelve_rounds, "first")
    version = release(twelve_rounds, "first").tables[TABLE]
    compact(twelve_rounds)
    small = set(committed_files(twelve_rounds, TABLE, version))
    done = maintain(twelve_rounds, keep_releases=1, unused_days=7, now=time.time() + 9 * DAY)
    assert done == ([], [], [], []) and read_table(twelve_rounds, TABLE, version=version).num_rows == 60
    export(twelve_rounds, "second")
    release(twelve_rounds, "second", round=2)
    assert maintain(twelve_rounds, keep_releases=1, unused_days=7, now=time.time() + DAY) == (["first"], [], [], [])
    done = maintain(twelve_rounds, keep_releases=1, unused_days=7, now=time.time() + 9 * DAY)
    assert {twelve_rounds.root / file.name for file in done.deleted} == small
    assert read_table(twelve_rounds, TABLE).num_rows == 60


def test_joined_screens_are_still_images_for_datasets(warehouse: Warehouse) -> None:
    for number in (1, 2, 3):
        commit_screens(warehouse, number, [2 * number, 2 * number + 1])
    assert compact_table(warehouse, "screens", fewest=2).files_after == 1
    expect(WarehouseScreens(warehouse), *range(2, 8))
    (file,) = committed_files(warehouse, "screens")
    assert b"Image" in pq.read_schema(file).metadata[b"huggingface"]
