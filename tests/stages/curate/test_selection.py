import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trajmill.stages.curate.training_set import shortest_successes

Success = tuple[str, str, int]
successes = st.tuples(st.sampled_from("ab"), st.text("tu", min_size=1, max_size=4), st.integers(1, 5))


def kept(found: list[Success], per_query: int = 3) -> frozenset[str]:
    """What is kept of queries, trajectories and their lengths, each of which has a row for each step."""
    rows = [(query, trajectory, step) for query, trajectory, steps in found for step in range(steps)]
    names = ("query_id", "trajectory_id", "step_index")
    return shortest_successes(pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)}), per_query)


def test_the_shortest_are_kept_and_ties_are_decided_by_id() -> None:
    found = [("a", "t4", 4), ("a", "t2", 3), ("a", "t1", 3), ("a", "t3", 2)]
    assert kept([*found, ("b", "u", 20)]) == {"t3", "t1", "t2", "u"}
    assert kept(found, 2) == {"t3", "t1"}


@given(st.lists(successes, min_size=1, max_size=20, unique_by=lambda s: s[1]), st.integers(1, 3))
def test_selection_is_a_function_of_the_set_alone(found: list[Success], per_query: int) -> None:
    chosen = kept(found, per_query)
    assert chosen == kept(found[::-1], per_query) == kept(found + found, per_query)
    for asked in "ab":
        lengths = {name: steps for query, name, steps in found if query == asked}
        assert len(chosen & lengths.keys()) == min(per_query, len(lengths))
        left = [steps for name, steps in lengths.items() if name not in chosen]
        assert not left or min(left) >= max(lengths[name] for name in chosen & lengths.keys())
