from trajmill.stages.curate.history import History, JudgedAttempt


def attempt(query_id: str, trajectory_id: str, correct: bool, steps: int = 4, guided: bool = False) -> JudgedAttempt:
    return JudgedAttempt(1, query_id, trajectory_id, steps, guided, correct)


HISTORY = History.of(
    (
        attempt("a", "a1", False),
        attempt("b", "b1", True, steps=6),
        attempt("a", "a2", True, steps=5),
        attempt("a", "a3", True, steps=3, guided=True),
        attempt("a", "a4", False),
        attempt("c", "c1", False, guided=True),
    )
)


def test_what_attempts_were_is_counted_and_the_shortest_success_may_be_a_guided_one() -> None:
    assert HISTORY.averages(["a", "b", "never tried"]) == {"a": 0.25, "b": 0.5, "never tried": 0.0}
    assert list(HISTORY.shares().items()) == [("b", 1.0), ("a", 1 / 3)]
    assert HISTORY.failures() == {"a": 2, "b": 0, "c": 0}
    assert HISTORY.streaks() == {"a": 0, "b": 1}
    assert HISTORY.shortest_success() == {"a": "a3", "b": "b1"}
    assert HISTORY.shortest_success(guided=False) == {"a": "a2", "b": "b1"}
