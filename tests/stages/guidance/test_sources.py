"""Which trajectory the hints of a hard query are written from."""

from __future__ import annotations

from tests.stages.rollout.toy import toy_query
from trajmill.stages.guidance.hard_queries import GuidanceSources, HardQueries, choose_sources, queries_to_walk

HARD = HardQueries(tuple(toy_query(name) for name in ("b", "a", "c")), {"a": "solved-a", "other": "solved-other"})


def test_only_paths_without_a_success_and_without_a_walk_are_walked() -> None:
    assert [query.query_id for query in queries_to_walk(HARD, {"c"})] == ["b"]
    bare = HARD._replace(queries=tuple(query.model_copy(update={"path": ()}) for query in HARD.queries))
    assert queries_to_walk(bare, ()) == []


def test_a_success_is_chosen_before_a_walk_and_a_source_is_written_from_once() -> None:
    sources = choose_sources(HARD, {"a": "walk-a", "b": "walk-b"}, written={"walk-b"})
    assert sources == GuidanceSources({"b": "walk-b", "a": "solved-a"}, ("solved-a",))
