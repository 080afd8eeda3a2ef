import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.records import record
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
from trajmill.schemas.geometry import Box
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import EndKind, Evidence, Pathway, PathwayStep
from trajmill.schemas.tables.policy_version import PolicyVersion, SplitSuccess
from trajmill.schemas.tables.query import Platform, Split
from trajmill.schemas.tables.registry import TABLES
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import TrajectoryVerdict
from trajmill.stages.metrics.intervals import wilson
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.shards import stored_schema
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.views import connect, duckdb_type, ready_made, refresh_views

pytestmark = pytest.mark.slow


def ask(warehouse: Warehouse, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run_sql(warehouse, text).to_pylist()
    return rows


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
            described = connection.execute(f"DESCRIBE {table}").fetchall()
            assert [row[0] for row in described] == stored_schema(table).names
        for view in ready_made():
            assert connection.execute(f"SELECT * FROM {view}").fetchall() == []


def test_views_show_committed_files_only_and_a_reader_does_not_disturb_the_refresh(warehouse: Warehouse) -> None:
    commit_rows(warehouse, stage_run("judge", 1), *step_verdicts(5, stage_run("judge", 1)))
    refresh_views(warehouse)
    with connect(warehouse) as reader:
        commit_rows(warehouse, stage_run("judge", 2), *step_verdicts(3, stage_run("judge", 2)))
        refresh_views(warehouse)
        folder = warehouse.table("step_verdicts")
        shutil.copy(next(folder.glob("*.parquet")), folder / "x.parquet")
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
    refresh_views(warehouse)
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
    low, high = (pytest.approx(bound, abs=1e-9) for bound in bounds)
    for found, run_id in zip(ask(warehouse, "FROM success_by_round"), ("run-a", "run-b"), strict=True):
        assert tuple(found.values()) == (1, "policy-1", "heldout_slots", 4, 0.75, low, high, run_id)


def test_funnel_cost_and_judge_are_those_of_the_round(warehouse: Warehouse) -> None:
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
    whole, step = ask(warehouse, "FROM judge_by_round")
    assert (whole["level"], whole["precision"], whole["n"]) == ("trajectory", 0.8, 100)
    assert whole["recall"] == pytest.approx(40 / 60)
    # Agreement 0.70; by chance 0.5 * 0.6 + 0.5 * 0.4 = 0.50.
    assert whole["kappa"] == pytest.approx((0.70 - 0.50) / (1 - 0.50))
    assert (step["precision"], step["recall"], step["kappa"], step["n"]) == (None, None, None, 5)


def test_guidance_lift_compares_guided_queries_with_themselves_in_the_same_round(warehouse: Warehouse) -> None:
    first, second = stage_run(number=1), stage_run(number=2)
    tried = [trajectory(number, first, f"q{number}", reward=float(number == 2)) for number in range(3)]
    commit_rows(warehouse, first, *(query(f"q{number}", first) for number in range(3)), *tried)
    guided = [("q0", 1.0), ("q1", 1.0), ("q1", 0.0)]
    commit_rows(
        warehouse,
        second,
        trajectory(0, second, "q0", reward=1.0),
        *(trajectory(n, second, q, reward=r, purpose=Purpose.GUIDED) for n, (q, r) in enumerate(guided, 1)),
    )
    [found] = ask(warehouse, "FROM guidance_lift")
    assert (found.pop("round"), found.pop("run_id"), found.pop("queries")) == (2, "run-a", 2)
    assert found == {
        "compared": 1, "success_without": 1.0, "success_with": 1.0, "success_guided": 0.75, "success_so_far": 0.25
    }  # fmt: skip


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
        record(
            TrajectoryVerdict,
            trajectory_id=wrong.trajectory_id,
            correct=True,
            reason="a mail was sent",
            **at_origin(at),
        ),
    )
    commit_rows(warehouse, again, judgement(right.trajectory_id, again, True, "judge-v2"))
    assert len(ask(warehouse, "FROM judgements")) == 3
    latest = {row["made_by"]: row["correct"] for row in ask(warehouse, "FROM latest_judgements")}
    assert latest == {"judge-v1": True, "judge-v2": True}
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
            record(Failure, failure_class=kind, message=f"{kind} {place}", attempts=2, **at_origin(at))
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
        record(PolicyVersion, model_version=name, success=success, **at_origin(at))
        for name, success in (("policy-0", ()), ("policy-1", (SplitSuccess(split="train", queries=4, successes=3),)))
    ]
    commit_rows(warehouse, at, *versions)
    assert ask(warehouse, "SELECT model_version, train, heldout_apps FROM model_versions") == [
        {"model_version": "policy-0", "train": None, "heldout_apps": None},
        {"model_version": "policy-1", "train": 0.75, "heldout_apps": None},
    ]


def pathway(at: StageRun, program: str, name: str, kind: EndKind, after: float, needs: bool | None) -> Pathway:
    step = PathwayStep(role="menu", name=name, target=f"menu:{name}", bounds=Box(1, 2, 3, 4), screen_id="screen")
    return record(
        Pathway,
        pathway_id=Pathway.make_id(program, "{}", (step.target,)),
        platform=Platform.DESKTOP,
        program=program,
        steps=(step,),
        end_kind=kind,
        shows=(Evidence(role="menu_item", text="New", state=""),),
        needs_selection=needs,
        found_after=after,
        **at_origin(at),
    )


@pytest.mark.slow
def test_pathways_by_program_and_rows_come_back_as_they_were(warehouse: Warehouse) -> None:
    at = stage_run()
    rows = [
        pathway(at, "editor", "File", EndKind.MENU, 0.5, False),
        pathway(at, "editor", "Fonts", EndKind.DIALOG, 2.0, True),
        pathway(at, "editor", "Sizes", EndKind.TAB, 1.0, None),
        pathway(at, "files", "File", EndKind.MENU, 0.0, None),
    ]
    commit_rows(warehouse, at, *rows)
    columns = "program, pathways, dialogs, tabs, need_selection, seconds, pathways_per_second"
    assert run_sql(warehouse, f"SELECT {columns} FROM pathways_by_program").to_pylist() == [
        dict(zip(columns.split(", "), ("editor", 3, 1, 1, 1, 2.0, 1.5), strict=True)),
        dict(zip(columns.split(", "), ("files", 1, 0, 0, 0, 0.0, None), strict=True)),
    ]
    read = read_rows(warehouse, Pathway, run_id=at.run_id)
    assert {row.pathway_id: row for row in read} == {row.pathway_id: row for row in rows} and len(read) == len(rows)
