import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.warehouse.samples import commit_rounds, stage_run
from tests.warehouse.test_releases import export, release
from tests.warehouse.test_screens import commit_screens, expect
from trajmill.warehouse.commit import commit
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import DataFile, replace_shard, write_shard
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.upkeep import compact, compact_table, maintain, vacuum

pytestmark = pytest.mark.slow

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
    day = 86_400.0
    small = set(committed_files(twelve_rounds, TABLE, version))
    done = maintain(twelve_rounds, keep_releases=1, unused_days=7, now=time.time() + 9 * day)
    assert done == ([], [], [], []) and read_table(twelve_rounds, TABLE, version=version).num_rows == 60
    export(twelve_rounds, "second")
    release(twelve_rounds, "second", round=2)
    assert maintain(twelve_rounds, keep_releases=1, unused_days=7, now=time.time() + day) == (["first"], [], [], [])
    done = maintain(twelve_rounds, keep_releases=1, unused_days=7, now=time.time() + 9 * day)
    assert {twelve_rounds.root / file.name for file in done.deleted} == small
    assert read_table(twelve_rounds, TABLE).num_rows == 60


def test_joined_screens_are_still_images_for_datasets(warehouse: Warehouse) -> None:
    for number in (1, 2, 3):
        commit_screens(warehouse, number, [2 * number, 2 * number + 1])
    assert compact_table(warehouse, "screens", fewest=2).files_after == 1
    expect(WarehouseScreens(warehouse), *range(2, 8))
    (file,) = committed_files(warehouse, "screens")
    assert b"Image" in pq.read_schema(file).metadata[b"huggingface"]
