from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.stages.curate.history import average_after, plan_attempts, task_weight

averages = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.floats(0, 1), min_size=1, max_size=12)


def test_the_success_average_weighs_recent_attempts_more() -> None:
    assert reduce(average_after, [True], 0.0) == 0.5
    assert reduce(average_after, [True, False], 0.0) == 0.25
    assert reduce(average_after, [False, True], 0.0) == 0.5
    assert reduce(average_after, [True] * 20, 0.0) == pytest.approx(1.0, abs=1e-5)


def test_rare_successes_weigh_more() -> None:
    assert task_weight(0.0) == pytest.approx(1.15)
    assert task_weight(1.0) == pytest.approx(0.15)
    with pytest.raises(ValueError, match="success average"):
        task_weight(1.5)


@given(averages, st.integers(0, 200), st.integers(0, 5), st.integers(1, 8))
def test_every_query_gets_its_share_of_the_groups(given_: dict[str, float], total: int, seed: int, size: int) -> None:
    plan = plan_attempts(given_, total, seed, size)
    assert plan_attempts({}, total, seed) == []
    groups = total // size
    assert sum(p.attempts for p in plan) == groups * size
    assert plan == plan_attempts(dict(reversed(given_.items())), total, seed, size)
    summed = sum(task_weight(a) for a in given_.values())
    counts = {p.query_id: p.attempts for p in plan}
    assert not any(attempts % size for attempts in counts.values())
    for query_id, average in given_.items():
        assert abs(counts.get(query_id, 0) / size - groups * task_weight(average) / summed) < 1 + 1e-6
