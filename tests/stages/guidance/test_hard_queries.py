from tests.stages.rollout.toy import toy_query
from trajmill.schemas.tables.query import Query
from trajmill.stages.curate.history import History, JudgedAttempt
from trajmill.stages.guidance.write import GuidanceSources, HardQueries, choose_sources, hard_queries, queries_to_walk


def history(**outcomes: str) -> History:
    """Attempts by query: `x` failed, `o` was correct, `O` was correct with guidance."""
    return History.of(
        tuple(
            JudgedAttempt(1, query_id, f"{query_id}{number}", 4, outcome == "O", outcome in "oO")
            for query_id, text in outcomes.items()
            for number, outcome in enumerate(text)
        )
    )


def queries(*names: str) -> list[Query]:
    return [toy_query(name) for name in names]


def test_queries_that_failed_often_are_hard_if_there_is_something_to_write_hints_from() -> None:
    found = hard_queries(queries("a", "b", "c", "d"), history(a="xx", b="x", c="xxoo", d=""), 2, episodes=100)
    assert [query.query_id for query in found.queries] == ["a"]
    past = history(a="xxO", b="xx", c="xx")
    found = hard_queries(queries("a", "b", "c"), past, 2, episodes=100)
    assert [query.query_id for query in found.queries] == ["b", "c", "a"]
    assert found.own_success == {"a": "a2"}
    assert [query.query_id for query in hard_queries(queries("a", "b", "c"), past, 2, episodes=5).queries] == ["b", "c"]
    bare = [query.model_copy(update={"path": ()}) for query in queries("a", "b")]
    found = hard_queries(bare, history(a="xxO", b="xx"), 2, episodes=100)
    assert [query.query_id for query in found.queries] == ["a"]


HARD = HardQueries(tuple(toy_query(name) for name in ("b", "a", "c")), {"a": "solved-a", "other": "solved-other"})


def test_a_success_is_chosen_before_a_walk_and_only_paths_without_either_are_walked() -> None:
    assert [query.query_id for query in queries_to_walk(HARD, {"c"})] == ["b"]
    bare = HARD._replace(queries=tuple(query.model_copy(update={"path": ()}) for query in HARD.queries))
    assert queries_to_walk(bare, ()) == []
    sources = choose_sources(HARD, {"a": "walk-a", "b": "walk-b"}, written={"walk-b"})
    assert sources == GuidanceSources({"b": "walk-b", "a": "solved-a"}, ("solved-a",))


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
