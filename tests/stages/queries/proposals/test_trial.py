"""What one attempt says about a proposed task."""

from __future__ import annotations

import pytest

from tests.warehouse.samples import judgement, query, stage_run, trajectory
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import FEASIBLE, INFEASIBLE, Query
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.stages.queries.proposals.propose import decide_proposal

PROPOSED = query("a", stage_run("propose", 1))
LATER = stage_run("try_proposals", 2)
ORIGIN = Origin(round=2, run_id="run-a", code_version="0")


def attempt(**changes: object) -> Trajectory:
    return trajectory(0, LATER, PROPOSED.query_id, **changes)


@pytest.mark.parametrize(("correct", "validation"), [(True, FEASIBLE), (False, INFEASIBLE)])
def test_the_judge_decides_and_the_row_belongs_to_the_round_of_the_decision(correct: bool, validation: str) -> None:
    tried = attempt()
    decided = decide_proposal(PROPOSED, tried, judgement(tried.trajectory_id, LATER, correct), ORIGIN)
    assert decided is not None
    changed = {key for key in Query.model_fields if getattr(decided.query, key) != getattr(PROPOSED, key)}
    assert {"validation", "round"} <= changed <= {"validation", "round", "code_version", "written_at"}
    assert (decided.query.validation, decided.query.round) == (validation, 2)
    assert (decided.refusal is None) is correct


@pytest.mark.parametrize("cause", [None, FailureClass.ENVIRONMENT, FailureClass.SETUP, FailureClass.MODEL])
def test_an_attempt_that_nobody_judged_says_nothing(cause: FailureClass | None) -> None:
    assert decide_proposal(PROPOSED, attempt(failure_class=cause, failure_message="it ended"), None, ORIGIN) is None


def test_a_task_that_cannot_be_started_is_refused_with_the_reason() -> None:
    malformed = attempt(failure_class=FailureClass.TASK, failure_message="there is no such list")
    decided = decide_proposal(PROPOSED, malformed, None, ORIGIN)
    assert decided is not None and decided.refusal is not None
    assert "there is no such list" in decided.refusal.message
    assert (decided.refusal.input_id, decided.refusal.failure_class) == (PROPOSED.query_id, FailureClass.TASK)
