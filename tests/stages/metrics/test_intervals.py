import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.stages.metrics.intervals import wilson


def test_it_is_the_published_interval() -> None:
    # Newcombe 1998, Table I: 81 of 263.
    low, high = wilson(81, 263)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)


@pytest.mark.parametrize(("n", "successes", "low", "high"), [(0, 0, 0, 1), (10, 0, 0, 0.2775), (10, 10, 0.7225, 1)])
def test_the_ends_are_reached_only_by_certainty(n: int, successes: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_it_holds_the_rate_and_mirrors(case: tuple[int, int]) -> None:
    successes, n = case
    low, high = wilson(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    mirrored = wilson(n - successes, n)
    assert mirrored.low == pytest.approx(1 - high)
    assert mirrored.high == pytest.approx(1 - low)


@pytest.mark.parametrize("case", [(3, 2), (-1, 2)])
def test_impossible_counts_are_refused(case: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="successes"):
        wilson(*case)
