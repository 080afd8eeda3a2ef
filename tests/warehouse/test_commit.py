import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.warehouse.samples import stage_run, step_verdicts
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import arrow_schema, rows_to_arrow
from trajmill.schemas.tables.verdict import StepVerdict
from trajmill.warehouse.commit import commit, commit_stage
from trajmill.warehouse.delta_log import committed_files, committed_names, table_versions
from trajmill.warehouse.layout import StageRun, Warehouse, checked_name, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_batches, read_rows, read_table
from trajmill.warehouse.shards import WRITTEN_AT, DataFile, write_shard
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.upkeep import damage

TABLE = "step_verdicts"


def write(warehouse: Warehouse, at: StageRun, count: int = 5, shard: int = 0) -> DataFile:
    rows = rows_to_arrow(TABLE, step_verdicts(count, at, 100 * shard))
    return write_shard(warehouse, TABLE, at, rows, f"{shard:05d}")


def test_rows_are_visible_only_after_their_commit_and_a_later_attempt_adds_rows(warehouse: Warehouse) -> None:
    at, before = stage_run("judge"), datetime.now(UTC)
    file = write(warehouse, at)
    assert read_table(warehouse, TABLE).num_rows == 0
    commit(warehouse, TABLE, [file], at)
    assert read_rows(warehouse, StepVerdict) == step_verdicts(5, at)
    times = set(read_table(warehouse, TABLE)["written_at"].to_pylist())
    assert len(times) == 1 and before <= times.pop() <= datetime.now(UTC)
    first, second = stage_run("judge"), stage_run("judge", attempt=1)
    commit(warehouse, TABLE, [write(warehouse, first)], first)
    commit(warehouse, TABLE, [write(warehouse, second, count=2)], second)
    assert read_table(warehouse, TABLE).num_rows == 7


def test_committing_twice_is_a_no_op_and_a_committed_file_never_changes(warehouse: Warehouse) -> None:
    at = stage_run("judge")
    file = write(warehouse, at, count=5)
    assert pq.read_schema(warehouse.table(TABLE) / file.path).equals(arrow_schema(TABLE).append(WRITTEN_AT))
    version = commit(warehouse, TABLE, [file], at)
    assert write(warehouse, at, count=3) == file
    assert commit(warehouse, TABLE, [file], at) == version
    assert read_table(warehouse, TABLE).num_rows == 5


def test_only_the_last_two_checkpoints_of_a_log_stay_and_earlier_versions_are_read(warehouse: Warehouse) -> None:
    for number in range(1, 42):
        at = stage_run("judge", number)
        commit(warehouse, TABLE, [write(warehouse, at, count=1)], at)
    found = sorted(path.name[18:20] for path in (warehouse.table(TABLE) / "_delta_log").glob("*.checkpoint.parquet"))
    assert found == ["29", "39"]
    assert [read_table(warehouse, TABLE, version=version).num_rows for version in (0, 15, 40)] == [1, 16, 41]
    assert list(damage(warehouse)) == []


def test_several_shards_become_one_version_and_one_without_rows_none(warehouse: Warehouse) -> None:
    at = stage_run("judge")
    file = write(warehouse, at, count=0)
    assert file.rows == 0 and not (warehouse.table(TABLE) / file.path).exists()
    assert commit_stage(warehouse, at, {TABLE: [file]}) == {}
    assert table_versions(warehouse) == {}
    first, second = stage_run("judge", 1), stage_run("judge", 2)
    commit(warehouse, TABLE, [write(warehouse, first)], first)
    version = commit(warehouse, TABLE, [write(warehouse, second, shard=shard) for shard in range(3)], second)
    assert read_table(warehouse, TABLE).num_rows == 20
    assert read_table(warehouse, TABLE, version=version - 1).num_rows == 5


def test_rows_of_rounds_runs_and_columns(warehouse: Warehouse) -> None:
    for at in (stage_run("judge", 1), stage_run("judge", 2), stage_run("judge", 2, run_id="run-b")):
        commit(warehouse, TABLE, [write(warehouse, at)], at)
    assert read_table(warehouse, TABLE, rounds=[2]).num_rows == 10
    assert read_table(warehouse, TABLE, ["index"], rounds=[2], run_id="run-b").column_names == ["index"]
    assert read_table(warehouse, TABLE, ["index"], rounds=[2], run_id="run-b").num_rows == 5
    assert read_table(warehouse, TABLE, rounds=[3]).num_rows == 0
    assert sum(batch.num_rows for batch in read_batches(warehouse, TABLE, run_id="run-a")) == 10
    names = committed_names(warehouse, TABLE, rounds=[2, 3], run_id="run-b")
    assert names == [f"tables/{TABLE}/{stage_run('judge', 2, run_id='run-b').shard_name()}"]
    assert len(committed_names(warehouse, TABLE, run_id="run-a")) == 2
    assert committed_names(warehouse, TABLE, rounds=[], run_id="run-a") == []


def test_files_beyond_the_bounds_of_a_column_are_not_read(warehouse: Warehouse) -> None:
    for number in range(3):
        at = stage_run("judge", number)
        rows = [row.model_copy(update={"trajectory_id": f"{number}-t"}) for row in step_verdicts(4, at)]
        commit(warehouse, TABLE, [write_shard(warehouse, TABLE, at, rows_to_arrow(TABLE, rows))], at)
    middle = {"trajectory_id": ["1", "1-t"]}
    [name] = committed_names(warehouse, TABLE, where=middle)
    file = warehouse.root / name
    assert file.name == stage_run("judge", 1).shard_name()
    for other in set(committed_files(warehouse, TABLE)) - {file}:
        other.unlink()
    assert read_table(warehouse, TABLE, where=middle)["trajectory_id"].to_pylist() == ["1-t"] * 4


@pytest.mark.slow
def test_rows_of_a_file_with_many_row_groups_are_found_with_nulls_for_lacking_columns(warehouse: Warehouse) -> None:
    for at in (stage_run("judge", 1), stage_run("judge", 2)):
        commit(warehouse, TABLE, [write(warehouse, at, count=20)], at)
    stored = read_table(warehouse, TABLE)
    for path in committed_files(warehouse, TABLE):
        rows = pq.read_table(path, partitioning=None).drop_columns(["judge_id", "summary"])
        pq.write_table(rows, path, row_group_size=3)
    assert read_table(warehouse, TABLE, where={"trajectory_id": []}).num_rows == 0
    wanted = stored.filter(pc.is_in(stored["index"], pa.array([0, 7, 8, 19])))
    found = read_table(warehouse, TABLE, where={"trajectory_id": wanted["trajectory_id"].to_pylist()})
    assert found["summary"].null_count == found.num_rows == 8
    names = [name for name in stored.column_names if name not in ("judge_id", "summary")]
    assert found.select(names).to_pylist() == wanted.select(names).to_pylist()
    assert read_table(warehouse, TABLE, where={"judge_id": ["other"]}).num_rows == 0


def test_a_column_added_later_is_null_in_older_rows(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = stage_run("judge", 1), stage_run("judge", 2)
    commit(warehouse, TABLE, [write(warehouse, old)], old)
    wider = arrow_schema(TABLE).append(pa.field("confidence", pa.float64(), nullable=False))
    monkeypatch.setattr(
        "trajmill.warehouse.shards.arrow_schema", lambda table: wider if table == TABLE else arrow_schema(table)
    )
    data = rows_to_arrow(TABLE, step_verdicts(3, new)).append_column("confidence", pa.array([0.5] * 3))
    version = commit(warehouse, TABLE, [write_shard(warehouse, TABLE, new, data)], new)
    assert version == DeltaTable(str(warehouse.table(TABLE))).version()
    assert read_table(warehouse, TABLE, ["confidence"]).column(0).to_pylist() == [None] * 5 + [0.5] * 3
    assert DeltaTable(str(warehouse.table(TABLE))).schema().fields[-1].name == "confidence"
    assert read_rows(warehouse, StepVerdict) == step_verdicts(5, old) + step_verdicts(3, new)
    assert run_sql(warehouse, f"SELECT count(confidence) AS n FROM {TABLE}").to_pylist() == [{"n": 3}]


def test_a_warehouse_is_made_once_and_a_write_raises_an_older_schema_version(tmp_path: Path) -> None:
    made = create_warehouse(tmp_path / "new" / "warehouse")
    assert create_warehouse(made.root) == open_warehouse(made.root) == made
    assert json.loads((made.root / "warehouse.json").read_text()) == {"schema_version": SCHEMA_VERSION}
    assert made.table("steps") == made.root / "tables" / "steps"
    with pytest.raises(KeyError):
        made.table("stepz")
    create_warehouse(tmp_path)
    (tmp_path / "warehouse.json").write_text('{"schema_version": 0}')
    open_warehouse(tmp_path)
    assert json.loads((tmp_path / "warehouse.json").read_text())["schema_version"] == 0
    create_warehouse(tmp_path)
    assert json.loads((tmp_path / "warehouse.json").read_text())["schema_version"] == SCHEMA_VERSION


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema_version": "x"}', "\x00"])
def test_a_damaged_version_file_gives_one_error_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "warehouse.json").write_text(text)
    with pytest.raises(BadInputError, match=r"\A[^\n]*warehouse\.json:1: not a warehouse's version file"):
        open_warehouse(tmp_path)


def test_what_is_no_warehouse_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is no warehouse"):
        open_warehouse(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match="cannot be written"):
        create_warehouse(tmp_path / "file")
    for name in ("100%", "why?", "a*", "[1]"):
        with pytest.raises(BadInputError, match="choose another folder"):
            create_warehouse(tmp_path / name)
        assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a b", "a\n", "x" * 101, "a%2fb", "ü"])
def test_names_that_could_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(BadInputError, match="cannot be part of a file name"):
        checked_name(name)
    with pytest.raises(BadInputError):
        StageRun(run_id=name, round=1, stage="rollout")
