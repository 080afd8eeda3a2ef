from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trajmill.stages.curate.training_set import Success, shortest_successes

successes = st.builds(Success, st.sampled_from("ab"), st.text("tu", min_size=1, max_size=4), st.integers(1, 5))


def test_the_shortest_are_kept_and_ties_are_decided_by_id() -> None:
    found = [Success("a", "t4", 4), Success("a", "t2", 3), Success("a", "t1", 3), Success("a", "t3", 2)]
    assert shortest_successes([*found, Success("b", "u", 20)]) == {"t3", "t1", "t2", "u"}
    assert shortest_successes(found, 2) == {"t3", "t1"}


@given(st.lists(successes, max_size=20, unique_by=lambda s: s.trajectory_id), st.integers(1, 3))
def test_selection_is_a_function_of_the_set_alone(found: list[Success], per_query: int) -> None:
    kept = shortest_successes(found, per_query)
    assert kept == shortest_successes(found[::-1], per_query) == shortest_successes(found + found, per_query)
    for asked in "ab":
        of_query = [s for s in found if s.query_id == asked]
        chosen = [s for s in of_query if s.trajectory_id in kept]
        assert len(chosen) == min(per_query, len(of_query))
        left = [s.steps for s in of_query if s.trajectory_id not in kept]
        assert not left or min(left) >= max(s.steps for s in chosen)
