from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.warehouse.samples import commit_rows, query, stage_run, step_verdicts, trajectory
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.bounds.conditions import Among
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.lookup import RowLookup
from trajmill.warehouse.read import read_table
from trajmill.warehouse.upkeep.compact import compact_table

TABLE = "step_verdicts"
FIRST, SECOND = stage_run("judge", 1), stage_run("judge", 2)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = create_warehouse(tmp_path / "root")
    for at in (FIRST, SECOND):
        commit_rows(warehouse, at, *step_verdicts(20, at))
    return warehouse


@pytest.mark.slow
def test_a_row_is_found_by_its_values_as_it_is_stored(warehouse: Warehouse) -> None:
    stored = read_table(warehouse, TABLE, rounds=[2]).slice(7, 1)
    wanted = {"trajectory_id": stored["trajectory_id"][0].as_py()}
    lookup = RowLookup(warehouse)
    assert lookup.read(TABLE, where=wanted).select(stored.column_names).to_pylist() == stored.to_pylist()
    assert lookup.read(TABLE, where=wanted, rounds=[1]).num_rows == 0
    assert lookup.read(TABLE, where=wanted, run_id="other").num_rows == 0
    starts = {"trajectory_id": wanted["trajectory_id"][:10]}
    assert lookup.read(TABLE, ["index"], starts=starts).to_pylist() == [{"index": 7}]


@pytest.mark.slow
def test_rows_with_one_of_some_values_come_in_the_order_in_which_they_are_stored(warehouse: Warehouse) -> None:
    names = read_table(warehouse, TABLE, ["trajectory_id"], rounds=[2])["trajectory_id"].to_pylist()
    lookup, chosen = RowLookup(warehouse), [names[9], "unknown", names[3]]
    found = lookup.read(TABLE, rounds=[2], among=Among("trajectory_id", chosen))
    assert found["trajectory_id"].to_pylist() == [names[3], names[9]]
    assert lookup.read(TABLE, among=Among("trajectory_id", [])).num_rows == 0


@pytest.mark.slow
def test_rows_of_some_rounds_are_found_and_those_between_them_are_not(warehouse: Warehouse) -> None:
    third = stage_run("judge", 3)
    commit_rows(warehouse, third, *step_verdicts(5, third))
    lookup = RowLookup(warehouse)
    assert lookup.read(TABLE, ["round"], rounds=[3, 1])["round"].value_counts().to_pylist() == [
        {"values": 1, "counts": 20},
        {"values": 3, "counts": 5},
    ]
    assert lookup.read(TABLE, rounds=[]).num_rows == 0


@pytest.mark.slow
def test_rows_of_a_file_with_many_row_groups_are_found_with_nulls_for_lacking_columns(
    warehouse: Warehouse,
) -> None:
    stored = read_table(warehouse, TABLE)
    for path in committed_files(warehouse, TABLE):
        rows = pq.read_table(path, partitioning=None).drop_columns(["judge_id", "summary"])
        pq.write_table(rows, path, row_group_size=3)
    lookup = RowLookup(warehouse)
    wanted = stored.filter(pc.is_in(stored["index"], pa.array([0, 7, 8, 19])))
    found = lookup.read(TABLE, among=Among("trajectory_id", wanted["trajectory_id"].to_pylist()))
    assert found["summary"].null_count == found.num_rows == 8
    names = [name for name in stored.column_names if name not in ("judge_id", "summary")]
    assert found.select(names).to_pylist() == wanted.select(names).to_pylist()
    assert lookup.read(TABLE, where={"judge_id": "other"}).num_rows == 0
    assert lookup.read(TABLE, ["index"], rounds=[2]).num_rows == 20
    assert lookup.read(TABLE).num_rows == 40


@pytest.mark.slow
def test_what_is_committed_later_is_found_too(warehouse: Warehouse) -> None:
    lookup = RowLookup(warehouse)
    lookup.prepare([TABLE, "queries"])
    assert lookup.read("queries", where={"query_id": "late"}).num_rows == 0
    commit_rows(warehouse, FIRST, query("late", FIRST))
    assert lookup.read("queries", where={"query_id": "late"}).num_rows == 1
    compact_table(warehouse, TABLE, fewest=1)
    assert lookup.read(TABLE, run_id=FIRST.run_id).num_rows == 40


@pytest.mark.slow
def test_a_log_is_read_again_after_a_commit_even_if_it_had_been_quiet(warehouse: Warehouse) -> None:
    commit_rows(warehouse, FIRST, query("early", FIRST))
    os.utime(warehouse.table("queries") / "_delta_log", (0, 0))
    lookup = RowLookup(warehouse)
    assert lookup.read("queries", ["query_id"], run_id=FIRST.run_id).num_rows == 1
    commit_rows(warehouse, SECOND, query("late", SECOND))
    assert lookup.read("queries", ["query_id"], run_id=FIRST.run_id).num_rows == 2


@pytest.mark.slow
def test_values_are_never_read_as_sql(warehouse: Warehouse) -> None:
    lookup = RowLookup(warehouse)
    assert lookup.read(TABLE, where={"trajectory_id": "' OR true --"}).num_rows == 0
    with pytest.raises(KeyError):
        lookup.read(TABLE, where={'index" = 1 OR "index': "x"})


@pytest.mark.slow
def test_a_missing_file_is_one_line(warehouse: Warehouse) -> None:
    row = trajectory(0, FIRST, "q")
    commit_rows(warehouse, FIRST, row)
    next(warehouse.table("trajectories").glob("*.parquet")).unlink()
    with pytest.raises(BadInputError, match="a committed file is missing or damaged"):
        RowLookup(warehouse).read("trajectories", where={"trajectory_id": row.trajectory_id})
