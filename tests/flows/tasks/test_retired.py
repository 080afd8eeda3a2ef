from __future__ import annotations

from tests.warehouse.samples import query, stage_run
from trajmill.flows.tasks.rollout import without_solved
from trajmill.stages.curate.history import History, JudgedAttempt


def attempt(query_id: str, correct: bool) -> JudgedAttempt:
    return JudgedAttempt(1, query_id, f"{query_id}-{correct}", 4, False, correct)


SOLVED = History.of((attempt("q1", False), attempt("q1", True), attempt("q1", True)))
QUERIES = [query("q1", stage_run()), query("q2", stage_run())]


def test_what_is_solved_is_attempted_no_more() -> None:
    assert [each.query_id for each in without_solved(QUERIES, SOLVED, retire_after=2)] == ["q2"]
    assert without_solved(QUERIES, SOLVED, retire_after=3) == QUERIES
    assert without_solved(QUERIES, SOLVED, retire_after=0) == QUERIES


def test_a_run_that_has_solved_everything_goes_on_with_all_of_it() -> None:
    assert without_solved(QUERIES[:1], SOLVED, retire_after=1) == QUERIES[:1]
