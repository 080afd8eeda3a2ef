"""Successes by split, their intervals, and a paired comparison of two policies."""

import numpy as np
import pytest

from trajmill.schemas.tables.query import Split
from trajmill.stages.metrics.intervals import PairedOutcomes, holm, wilson
from trajmill.stages.metrics.rates import MeasuredEpisode, success_by_split


def test_changes_of_side_decide_the_test() -> None:
    outcomes = PairedOutcomes(both=40, lost=2, gained=10, neither=28)
    assert outcomes.queries == 80 and outcomes.difference == pytest.approx(0.1)
    # Twelve changed sides: 1 + 12 + 66 of 4,096 outcomes have two or fewer on one side, and as many on the other.
    assert outcomes.p_value == pytest.approx(2 * 79 / 4096)
    low, high = outcomes.interval
    assert 0.0 < low < 0.1 < high < 0.2
    swapped = outcomes._replace(lost=10, gained=2)
    assert swapped.interval == pytest.approx((-high, -low)) and swapped.p_value == outcomes.p_value
    assert PairedOutcomes(9, 0, 0, 3).p_value == PairedOutcomes(9, 3, 3, 0).p_value == 1.0


def test_without_correlation_the_interval_joins_those_of_both_rates() -> None:
    # 6 * 4 = 12 * 2: one outcome says nothing about the other.
    outcomes = PairedOutcomes(both=6, lost=2, gained=12, neither=4)
    a, b = wilson(8, 24), wilson(18, 24)
    low = 10 / 24 - ((18 / 24 - b.low) ** 2 + (a.high - 8 / 24) ** 2) ** 0.5
    high = 10 / 24 + ((b.high - 18 / 24) ** 2 + (8 / 24 - a.low) ** 2) ** 0.5
    assert outcomes.interval == pytest.approx((low, high))
    assert PairedOutcomes(0, 0, 0, 0).interval == (-1.0, 1.0)
    assert PairedOutcomes(7, 0, 0, 0).interval.high < 0.5


@pytest.mark.parametrize("shares", [(0.6, 0.05, 0.15, 0.2), (0.9, 0.02, 0.05, 0.03), (0.2, 0.3, 0.3, 0.2)])
def test_the_interval_covers_the_true_difference_as_often_as_it_says(shares: tuple[float, ...]) -> None:
    drawn = np.random.default_rng(7).multinomial(60, shares, size=2000)
    difference = shares[2] - shares[1]
    intervals = (PairedOutcomes(*map(int, counts)).interval for counts in drawn)
    covered = np.mean([low <= difference <= high for low, high in intervals])
    assert 0.93 <= covered <= 0.99


def test_p_values_are_adjusted_for_their_number() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []


SLOTS, TRAIN = Split.HELDOUT_SLOTS, Split.TRAIN


def test_successes_are_counted_per_split() -> None:
    episodes = [
        MeasuredEpisode(TRAIN, False),
        MeasuredEpisode(SLOTS, True),
        MeasuredEpisode(SLOTS, False),
        MeasuredEpisode(SLOTS, True),
    ]
    counts = success_by_split(episodes)
    assert [(entry.split, entry.queries, entry.successes) for entry in counts] == [(SLOTS, 3, 2), (TRAIN, 1, 0)]
    assert success_by_split([]) == ()


def test_it_is_the_published_interval() -> None:
    # Newcombe 1998, Table I: 81 of 263.
    low, high = wilson(81, 263)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)


@pytest.mark.parametrize(("n", "successes", "low", "high"), [(0, 0, 0, 1), (10, 0, 0, 0.2775), (10, 10, 0.7225, 1)])
def test_the_ends_are_reached_only_by_certainty(n: int, successes: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("case", [(3, 2), (-1, 2)])
def test_impossible_counts_are_refused(case: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="successes"):
        wilson(*case)
