"""Every table, view and column says what it means, in the DuckDB file and on its page."""

import pytest

from tests.flows.synthetic_run import RUN, write_run
from tests.records import record
from tests.warehouse.samples import at_origin, commit_rows, query, round_summary, stage_run, trajectory
from trajmill.schemas.tables.example import Example, Message
from trajmill.schemas.tables.registry import TABLES
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.views import connect, ready_made, refresh_views


@pytest.mark.slow
def test_every_view_and_column_has_a_comment_even_after_a_commit(warehouse: Warehouse) -> None:
    refresh_views(warehouse)
    write_run(warehouse, rounds=1)
    refresh_views(warehouse)
    known = [*TABLES, *ready_made()]
    silent = (
        "SELECT view_name FROM duckdb_views() WHERE comment IS NULL AND view_name IN (SELECT unnest($1))",
        "SELECT column_name FROM duckdb_columns() WHERE comment IS NULL AND table_name IN (SELECT unnest($1))",
    )
    with connect(warehouse) as views:
        assert [views.execute(query, [known]).fetchall() for query in silent] == [[], []]
        meaning = "SELECT comment FROM duckdb_columns() WHERE table_name = 'queries' AND column_name = 'max_steps'"
        assert views.execute(meaning).fetchall() == [("Step limit of an episode.",)]


@pytest.mark.slow
def test_the_views_of_nights_speak_of_a_run_and_its_rounds(warehouse: Warehouse) -> None:
    write_run(warehouse)

    def rows(query: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = run_sql(warehouse, query).to_pylist()
        return found

    assert rows("SELECT round, stage FROM slowest_stages") == [
        {"round": 1, "stage": "evaluate"},
        {"round": 2, "stage": "evaluate"},
    ]
    drift = rows("SELECT round, precision_change, n FROM judge_drift")
    assert drift == [{"round": 1, "precision_change": None, "n": 565}, {"round": 2, "precision_change": 0.0, "n": 565}]
    assert rows("SELECT round, accepted, cost_per_accepted FROM cost_per_accepted") == [
        {"round": 1, "accepted": 2, "cost_per_accepted": 0.0},
        {"round": 2, "accepted": 4, "cost_per_accepted": 0.0},
    ]
    landed = rows("SELECT round, trajectories, finished, accepted, guided, run_id FROM landed_by_day")
    assert [(row["round"], row["trajectories"], row["accepted"], row["guided"]) for row in landed] == [
        (1, 4, 2, 1),
        (2, 4, 4, 1),
    ]
    assert {row["run_id"] for row in landed} == {RUN}


def example(name: str, at: StageRun, trajectory_id: str) -> Example:
    said = (Message(role="user", content="Send it"), Message(role="assistant", content="Tap"))
    ids = {"example_id": name, "query_id": "q", "trajectory_id": trajectory_id}
    return record(Example, **ids, kind="end_to_end", messages=said, **at_origin(at))


@pytest.mark.slow
def test_examples_are_followed_to_where_they_come_from_and_duplicates_are_found(warehouse: Warehouse) -> None:
    at = stage_run("derive")
    attempt = trajectory(1, at, "q")
    two = [example(name, at, attempt.trajectory_id) for name in ("e1", "e2")]
    commit_rows(warehouse, at, query("q", at), attempt, round_summary(at), *two)
    lineage = run_sql(
        warehouse, "SELECT example_id, instruction, policy_version, release FROM example_lineage"
    ).to_pylist()
    release = round_summary(at).release
    assert [(row["example_id"], row["policy_version"], row["release"]) for row in lineage] == [
        ("e1", "policy-1", release),
        ("e2", "policy-1", release),
    ]
    duplicates = run_sql(warehouse, "SELECT examples, queries, example_id FROM duplicate_examples").to_pylist()
    assert duplicates == [{"examples": 2, "queries": 1, "example_id": "e1"}]


@pytest.mark.slow
def test_success_is_told_by_app_and_difficulty(warehouse: Warehouse) -> None:
    at = stage_run("evaluate")
    asked = [query("q0", at), query("q1", at).model_copy(update={"apps": ("mail", "notes")})]
    measured = [
        trajectory(number, at, f"q{number}", purpose=Purpose.EVALUATE, reward=float(number)) for number in range(2)
    ]
    commit_rows(warehouse, at, *asked, *measured)
    found = run_sql(warehouse, "SELECT app, difficulty, queries, success_rate FROM success_by_app").to_pylist()
    level = asked[0].difficulty
    assert found == [
        {"app": "mail", "difficulty": level, "queries": 2, "success_rate": 0.5},
        {"app": "notes", "difficulty": level, "queries": 1, "success_rate": 1.0},
    ]
