from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.warehouse.samples import (
    at_origin,
    commit_rows,
    judgement,
    query,
    round_summary,
    stage_run,
    step_verdicts,
    trajectory,
)
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.policy_version import PolicyVersion, SplitSuccess
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.registry import TABLES
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Channel, TrajectoryVerdict
from trajmill.stages.metrics.intervals import wilson
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.shards import stored_schema
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.views import connect, duckdb_type, ready_made, refresh_views

pytestmark = pytest.mark.slow


def ask(warehouse: Warehouse, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run_sql(warehouse, text).to_pylist()
    return rows


def types(connection: duckdb.DuckDBPyConnection, view: str) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in connection.execute(f"DESCRIBE {view}").fetchall()]


@pytest.mark.parametrize("table", TABLES)
def test_duckdb_reads_each_arrow_type_as_we_name_it(table: str) -> None:
    schema = stored_schema(table)
    relation = duckdb.connect().from_arrow(schema.empty_table())
    assert [duckdb_type(field.type).replace('"', "") for field in schema] == [
        str(kind).replace('"', "") for kind in relation.types
    ]


def test_an_empty_warehouse_has_every_view_with_the_right_columns(warehouse: Warehouse) -> None:
    refresh_views(warehouse)
    with connect(warehouse) as connection:
        for table in TABLES:
            assert [name for name, _ in types(connection, table)] == stored_schema(table).names
        for view in ready_made():
            assert connection.execute(f"SELECT * FROM {view}").fetchall() == []


def test_types_do_not_change_when_rows_come(warehouse: Warehouse) -> None:
    at = stage_run()
    with duckdb.connect(str(refresh_views(warehouse)), read_only=True) as connection:
        before = {view: types(connection, view) for view in (*TABLES, *ready_made())}
    commit_rows(
        warehouse, at, query("q", at), trajectory(1, at, "q"), judgement("t", at, True), round_summary(at),
        *step_verdicts(1, at),
    )  # fmt: skip
    with connect(warehouse) as connection:
        assert {view: types(connection, view) for view in (*TABLES, *ready_made())} == before


def test_views_show_committed_files_only_and_a_reader_does_not_disturb_the_refresh(warehouse: Warehouse) -> None:
    commit_rows(warehouse, stage_run("judge", 1), *step_verdicts(5, stage_run("judge", 1)))
    with connect(warehouse) as reader:
        commit_rows(warehouse, stage_run("judge", 2), *step_verdicts(3, stage_run("judge", 2)))
        shutil.copy(
            next(warehouse.table("step_verdicts").glob("*.parquet")), warehouse.table("step_verdicts") / "x.parquet"
        )
        assert reader.execute("SELECT count(*) FROM step_verdicts").fetchone() == (5,)
    assert ask(warehouse, "SELECT count(*) AS n FROM step_verdicts") == [{"n": 8}]


def test_a_damaged_file_is_made_anew(warehouse: Warehouse) -> None:
    first, second = stage_run("judge"), stage_run("judge", 2)
    commit_rows(warehouse, first, *step_verdicts(5, first))
    warehouse.database.write_bytes(b"x" * 20_000)
    assert ask(warehouse, "SELECT count(*) AS n FROM step_verdicts") == [{"n": 5}]
    with duckdb.connect(str(warehouse.database)) as connection:
        connection.execute("DROP VIEW step_verdicts; CREATE TABLE step_verdicts (i INTEGER)")
    commit_rows(warehouse, second, *step_verdicts(3, second))
    assert ask(warehouse, "SELECT count(*) AS n FROM step_verdicts") == [{"n": 8}]


def test_views_of_the_user_stay(warehouse: Warehouse) -> None:
    with duckdb.connect(str(refresh_views(warehouse))) as connection:
        connection.execute("CREATE VIEW mine AS SELECT 1 AS one")
    commit_rows(warehouse, stage_run("judge"), *step_verdicts(5, stage_run("judge")))
    assert ask(warehouse, "FROM mine") == [{"one": 1}]


@pytest.mark.parametrize("name", ["it's here", "a=b", "ünï {x} #1"])
def test_a_moved_warehouse_is_read_where_it_lies(warehouse: Warehouse, tmp_path: Path, name: str) -> None:
    commit_rows(warehouse, stage_run("judge"), *step_verdicts(5, stage_run("judge")))
    moved = open_warehouse(warehouse.root.rename(tmp_path / name))
    assert ask(moved, "SELECT count(*) AS n FROM step_verdicts") == [{"n": 5}]


def test_a_warehouse_that_was_made_anew_at_one_address_shows_its_own_rows(warehouse: Warehouse, tmp_path: Path) -> None:
    commit_rows(warehouse, stage_run("judge"), *step_verdicts(5, stage_run("judge")))
    views = shutil.copy(refresh_views(warehouse), tmp_path / "views")
    shutil.rmtree(warehouse.root)
    anew = create_warehouse(warehouse.root)
    commit_rows(anew, stage_run("again"), *step_verdicts(3, stage_run("again")))
    shutil.copy(views, anew.database)
    assert ask(anew, "SELECT count(*) AS n FROM step_verdicts") == [{"n": 3}]


def test_a_copy_shows_its_own_rows_though_the_first_folder_is_still_there(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(warehouse, stage_run("judge"), *step_verdicts(5, stage_run("judge")))
    copy = open_warehouse(Path(shutil.copytree(warehouse.root, tmp_path / "copy")))
    for path in warehouse.table("step_verdicts").glob("*.parquet"):
        path.write_bytes(b"")
    count = "SELECT count(*) AS n FROM step_verdicts"
    assert ask(copy, count) == [{"n": 5}]
    with connect(copy) as views:
        assert views.execute(count).fetchall() == [(5,)]
    monkeypatch.chdir(copy.root)
    with duckdb.connect("trajmill.duckdb", read_only=True) as views:
        assert views.execute(count).fetchall() == [(5,)]
    monkeypatch.chdir(tmp_path)
    with duckdb.connect(str(copy.database), read_only=True) as views:
        with pytest.raises(duckdb.IOException, match="No files found"):
            views.execute(count)
        views.execute("SET VARIABLE warehouse = 'copy'")
        assert views.execute(count).fetchall() == [(5,)]


def test_a_column_that_no_file_has_is_null(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_rows(warehouse, stage_run("judge"), *step_verdicts(2, stage_run("judge")))
    wider = {table: stored_schema(table).append(pa.field("confidence", pa.list_(pa.float64()))) for table in TABLES}
    monkeypatch.setattr("trajmill.warehouse.views.stored_schema", wider.__getitem__)
    assert ask(warehouse, "SELECT confidence FROM step_verdicts") == [{"confidence": None}] * 2


def test_success_by_round(warehouse: Warehouse) -> None:
    for at in (stage_run(), stage_run(run_id="run-b")):
        evaluated = {"purpose": Purpose.EVALUATE}
        commit_rows(
            warehouse,
            at,
            *(query(f"q{number}", at, Split.HELDOUT_SLOTS) for number in range(5)),
            *(trajectory(number, at, f"q{number}", reward=float(number < 3), **evaluated) for number in range(4)),
            trajectory(4, at, "q4", reward=None, status="failed", failure_class=FailureClass.ENVIRONMENT, **evaluated),
            trajectory(5, at, "q0", reward=0.0),
        )
    bounds = wilson(3, 4)
    assert run_sql(warehouse, "FROM success_by_round").column_names[:7] == (
        ["round", "policy_version", "split", "queries", "success_rate", "low", "high"]
    )
    assert ask(warehouse, "FROM success_by_round") == [
        {
            "round": 1,
            "policy_version": "policy-1",
            "split": "heldout_slots",
            "queries": 4,
            "success_rate": 0.75,
            "low": pytest.approx(bounds.low, abs=1e-9),
            "high": pytest.approx(bounds.high, abs=1e-9),
            "run_id": run_id,
        }
        for run_id in ("run-a", "run-b")
    ]


def test_funnel_and_cost_keep_the_order_of_the_stages(warehouse: Warehouse) -> None:
    at = stage_run()
    commit_rows(warehouse, at, round_summary(at))
    assert ask(warehouse, "FROM funnel") == [
        {"round": 1, "stage": "rollout", "rows_in": 100, "rows_out": 90, "dropped": 10, "run_id": "run-a"},
        {"round": 1, "stage": "judge", "rows_in": 90, "rows_out": 60, "dropped": 30, "run_id": "run-a"},
    ]
    assert ask(warehouse, "SELECT stage, seconds, share, cost FROM cost_by_stage") == [
        {"stage": "rollout", "seconds": 3.0, "share": 0.75, "cost": 0.5},
        {"stage": "judge", "seconds": 1.0, "share": 0.25, "cost": 0.25},
    ]


def test_judge_by_round(warehouse: Warehouse) -> None:
    at = stage_run()
    commit_rows(warehouse, at, round_summary(at))
    whole, step = ask(warehouse, "FROM judge_by_round")
    assert (whole["level"], whole["precision"], whole["n"]) == ("trajectory", 0.8, 100)
    assert whole["recall"] == pytest.approx(40 / 60)
    # Agreement 0.70; by chance 0.5 * 0.6 + 0.5 * 0.4 = 0.50.
    assert whole["kappa"] == pytest.approx((0.70 - 0.50) / (1 - 0.50))
    assert (step["precision"], step["recall"], step["kappa"], step["n"]) == (None, None, None, 5)


def test_guidance_lift_compares_guided_queries_with_themselves_in_the_same_round(warehouse: Warehouse) -> None:
    first, second = stage_run(number=1), stage_run(number=2)
    commit_rows(
        warehouse,
        first,
        query("q0", first),
        query("q1", first),
        query("q2", first),
        *(trajectory(number, first, f"q{number}", reward=0.0) for number in range(2)),
        trajectory(2, first, "q2", reward=1.0),
    )
    commit_rows(
        warehouse,
        second,
        trajectory(0, second, "q0", reward=1.0),
        trajectory(1, second, "q0", reward=1.0, purpose=Purpose.GUIDED),
        trajectory(2, second, "q1", reward=1.0, purpose=Purpose.GUIDED),
        trajectory(3, second, "q1", reward=0.0, purpose=Purpose.GUIDED),
    )
    assert ask(warehouse, "FROM guidance_lift") == [
        {
            "round": 2,
            "queries": 2,
            "compared": 1,
            "success_without": 1.0,
            "success_with": 1.0,
            "success_guided": 0.75,
            "success_so_far": 0.25,
            "run_id": "run-a",
        }
    ]


def test_the_latest_judgement_counts_and_disagreements_say_why(warehouse: Warehouse) -> None:
    at, again = stage_run("judge"), stage_run("judge", attempt=1)
    right, wrong = trajectory(1, at, "q", reward=1.0), trajectory(2, at, "q", reward=0.0)
    commit_rows(
        warehouse,
        at,
        query("q", at),
        right,
        wrong,
        judgement(right.trajectory_id, at, False, "judge-v1"),
        judgement(wrong.trajectory_id, at, True, "judge-v1"),
        TrajectoryVerdict(
            trajectory_id=wrong.trajectory_id,
            channel=Channel.TEXT,
            resolution="full",
            vote=0,
            correct=True,
            reason="a mail was sent",
            redundant_steps=(),
            first_error_step=None,
            **at_origin(at),
        ),
    )
    commit_rows(warehouse, again, judgement(right.trajectory_id, again, True, "judge-v2"))
    assert len(ask(warehouse, "FROM judgements")) == 3
    assert {row["made_by"]: row["correct"] for row in ask(warehouse, "FROM latest_judgements")} == {
        "judge-v1": True,
        "judge-v2": True,
    }
    [found] = ask(warehouse, "FROM disagreements")
    assert (found["trajectory_id"], found["judged_correct"], found["reward"]) == (wrong.trajectory_id, True, 0.0)
    assert (found["instruction"], found["reasons"]) == ("Send the mail q", "text: a mail was sent")


def test_failures_by_class(warehouse: Warehouse) -> None:
    at = stage_run()
    kinds = [FailureClass.MODEL, FailureClass.MODEL, FailureClass.SETUP]
    commit_rows(
        warehouse,
        at,
        *(
            Failure(
                stage="rollout",
                input_id=str(place),
                failure_class=kind,
                message=f"{kind} {place}",
                attempts=2,
                **at_origin(at),
            )
            for place, kind in enumerate(kinds)
        ),
    )
    rows = ask(warehouse, "SELECT failure_class, failures, attempts, example FROM failures_by_class")
    assert rows == [
        {"failure_class": "model", "failures": 2, "attempts": 4, "example": "model 0"},
        {"failure_class": "setup", "failures": 1, "attempts": 2, "example": "setup 2"},
    ]


def test_steps_per_success(warehouse: Warehouse) -> None:
    at = stage_run()
    rewards = [(3, 1.0), (5, 1.0), (10, 0.0)]
    commit_rows(warehouse, at, *(trajectory(n, at, "q", steps=s, reward=r) for n, (s, r) in enumerate(rewards)))
    assert ask(warehouse, "SELECT attempts, successes, steps_per_success, median_steps FROM steps_per_success") == [
        {"attempts": 3, "successes": 2, "steps_per_success": 9.0, "median_steps": 4.0}
    ]


def test_model_versions(warehouse: Warehouse) -> None:
    at = stage_run()
    versions = [
        PolicyVersion(
            model_version=name,
            parent=None,
            release=None,
            recipe="{}",
            updates=0,
            success=success,
            promoted=True,
            reason="first",
            **at_origin(at),
        )
        for name, success in (
            ("policy-0", ()),
            ("policy-1", (SplitSuccess(split="train", queries=4, successes=3),)),
        )
    ]
    commit_rows(warehouse, at, *versions)
    assert ask(warehouse, "SELECT model_version, train, heldout_apps FROM model_versions") == [
        {"model_version": "policy-0", "train": None, "heldout_apps": None},
        {"model_version": "policy-1", "train": 0.75, "heldout_apps": None},
    ]
