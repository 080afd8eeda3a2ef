from __future__ import annotations

import pytest

from trajmill.flows import deriving
from trajmill.flows.configuration.config import Config
from trajmill.flows.deriving import Attempted, derive_kind, lifts_by_task
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.derive.kind_spec import GuidanceLift
from trajmill.stages.derive.planning.trials import MANUAL, MANUAL_HELPED, TriedManual
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows


def test_only_queries_that_were_attempted_in_both_ways_are_compared() -> None:
    attempts = [
        Attempted("a", "q0", "train", 3, 0.0),
        Attempted("b", "q0", "train", 3, 1.0),
        Attempted("c", "q0", "guided", 3, 1.0),
        Attempted("d", "q1", "guided", 3, 0.0),
        Attempted("e", "q2", "train", 3, 0.0),
        Attempted("f", "q2", "guided", 3, 1.0),
        Attempted("g", "q2", "guided", 3, None),
        Attempted("h", "q3", "train", 3, 1.0),
        Attempted("i", "q3", "evaluate", 3, 1.0),
    ]
    tasks = {one.trajectory_id: "rides" if one.query_id == "q3" else "bites" for one in attempts}
    assert lifts_by_task(attempts, tasks) == {"bites": GuidanceLift(without=0.25, guided=1.0)}


@pytest.mark.slow
def test_each_task_of_a_round_has_one_manual_and_a_second_call_makes_none(copied: Config) -> None:
    made = derive_kind(copied, "planning")
    warehouse = open_warehouse(copied.run.root)
    rows = [row for row in read_rows(warehouse, Example, run_id=copied.run_id) if row.kind == "planning"]
    assert made.examples == len(rows) > 0
    assert made.trajectories == made.examples + sum(made.refused.values())
    tasks = {query.query_id: query.task for query in read_rows(warehouse, Query, run_id=copied.run_id)}
    places = [(row.round, tasks[row.query_id]) for row in rows]
    assert len(set(places)) == len(places)
    known = {row.trajectory_id for row in read_rows(warehouse, Trajectory, run_id=copied.run_id)}
    assert all(row.source_trajectories and set(row.source_trajectories) <= known for row in rows)
    again = derive_kind(copied, "planning")
    assert (again.trajectories, again.examples) == (0, 0)


@pytest.mark.slow
def test_the_policy_tries_each_manual_with_and_without_it(copied: Config) -> None:
    planning = copied.derive.planning.model_copy(update={"trials": 2})
    config = copied.model_copy(update={"derive": copied.derive.model_copy(update={"planning": planning})})
    made = derive_kind(config, "planning")
    warehouse = open_warehouse(config.run.root)
    trials = [row for row in read_rows(warehouse, Trajectory, run_id=config.run_id) if row.purpose is Purpose.TRIAL]
    hints = {row.guidance_id: row for row in read_rows(warehouse, Guidance) if row.source == MANUAL}
    with_manual = [row for row in trials if row.guidance_id is not None]
    assert with_manual and {row.guidance_id for row in with_manual} == set(hints)
    alone = {(row.round, row.query_id, row.seed) for row in trials if row.guidance_id is None}
    assert {(row.round, row.query_id, row.seed) for row in with_manual} == alone
    rows = [row for row in read_rows(warehouse, Example, run_id=config.run_id) if row.kind == "planning"]
    assert len(rows) == made.examples and {row.variant for row in rows} <= {MANUAL_HELPED, "unmeasured"}
    assert made.trajectories == made.examples + sum(made.refused.values())
    again = derive_kind(config, "planning")
    assert (again.trajectories, again.examples) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("helped", [True, False])
def test_manuals_that_all_help_or_none_of_which_helps_are_written(
    copied: Config, monkeypatch: pytest.MonkeyPatch, helped: bool
) -> None:
    lift = TriedManual(1, 0.0, 1.0) if helped else TriedManual(1, 0.0, 0.0)
    monkeypatch.setattr(deriving, "tried_manual", lambda *_: lift)
    planning = copied.derive.planning.model_copy(update={"trials": 1})
    config = copied.model_copy(update={"derive": copied.derive.model_copy(update={"planning": planning})})
    made = derive_kind(config, "planning")
    assert (made.examples > 0) == helped
    assert ("manual_did_not_help" in made.refused) != helped
