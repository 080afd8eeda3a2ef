from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.warehouse.samples import commit_rows, stage_run, step_verdicts
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.read import read_table

TABLE = "step_verdicts"
FIRST, SECOND = stage_run("judge", 1), stage_run("judge", 2)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = create_warehouse(tmp_path / "root")
    for at in (FIRST, SECOND):
        commit_rows(warehouse, at, *step_verdicts(20, at))
    return warehouse


@pytest.mark.slow
def test_rows_with_one_of_some_values_come_in_the_order_in_which_they_are_stored(warehouse: Warehouse) -> None:
    names = read_table(warehouse, TABLE, ["trajectory_id"], rounds=[2])["trajectory_id"].to_pylist()
    found = read_table(warehouse, TABLE, rounds=[2], where={"trajectory_id": [names[9], "unknown", names[3]]})
    assert found["trajectory_id"].to_pylist() == [names[3], names[9]]
    assert read_table(warehouse, TABLE, where={"trajectory_id": []}).num_rows == 0


@pytest.mark.slow
def test_rows_of_a_file_with_many_row_groups_are_found_with_nulls_for_lacking_columns(
    warehouse: Warehouse,
) -> None:
    stored = read_table(warehouse, TABLE)
    for path in committed_files(warehouse, TABLE):
        rows = pq.read_table(path, partitioning=None).drop_columns(["judge_id", "summary"])
        pq.write_table(rows, path, row_group_size=3)
    wanted = stored.filter(pc.is_in(stored["index"], pa.array([0, 7, 8, 19])))
    found = read_table(warehouse, TABLE, where={"trajectory_id": wanted["trajectory_id"].to_pylist()})
    assert found["summary"].null_count == found.num_rows == 8
    names = [name for name in stored.column_names if name not in ("judge_id", "summary")]
    assert found.select(names).to_pylist() == wanted.select(names).to_pylist()
    assert read_table(warehouse, TABLE, where={"judge_id": ["other"]}).num_rows == 0
