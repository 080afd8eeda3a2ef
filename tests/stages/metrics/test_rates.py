"""WPSR, MATCR and p-ATSR as table 1 of NaturalGAIA has them."""

import itertools

import pytest

from trajmill.schemas.tables.query import Split
from trajmill.stages.metrics.intervals import wilson
from trajmill.stages.metrics.rates import (
    MeasuredEpisode,
    QueryAttempts,
    WalkedPathway,
    matcr,
    mean_pass_at_k,
    p_atsr,
    pass_at_k,
    success_by_split,
    wpsr,
)


def walked(completed: int, tasks: int) -> WalkedPathway:
    return WalkedPathway(tuple(place < completed for place in range(tasks)), tasks)


LEVEL_2 = [walked(done, 4) for done in (4, 4, 4, 4, 3, 2, 1, 1, 0, 0)]
"""Claude-sonnet-4 at level 2: ten tasks of four atomic tasks, four of them solved."""
LEVEL_1 = [*(walked(2, 2) for _ in range(7)), *(walked(1, 1) for _ in range(2)), *(walked(0, 2) for _ in range(6))]
"""Nine of fifteen tasks of one or two atomic tasks."""
LEVEL_3 = [*(walked(6, 6) for _ in range(2)), *(walked(0, n) for n in (5, 6, 6, 6, 6, 6, 6, 6))]
"""Two of ten tasks of five to seven atomic tasks, 59 in all."""


def percent(share: float) -> float:
    return round(100 * share, 1)


def test_a_level_of_the_papers_table_comes_out_and_p_atsr_counts_beyond_a_collapse() -> None:
    assert (percent(wpsr(LEVEL_2)), percent(matcr(LEVEL_2)), percent(p_atsr(LEVEL_2))) == (40.0, 57.5, 52.1)
    one = [WalkedPathway((True, False, True), 1)]
    assert (wpsr(one), matcr(one), p_atsr(one)) == pytest.approx((0.0, 1 / 3, 10 / 15))
    assert p_atsr(one, weight=lambda place: float(place)) == pytest.approx(4 / 6)


@pytest.mark.parametrize(("level", "share"), [(LEVEL_1, 57.1), (LEVEL_3, 20.3), ([*LEVEL_1, *LEVEL_2, *LEVEL_3], 34.6)])
def test_longer_tasks_weigh_more_as_in_the_papers_table(level: list[WalkedPathway], share: float) -> None:
    assert percent(wpsr(level)) == share


@pytest.mark.parametrize("nothing", [[], [WalkedPathway((), 1)]])
def test_the_rate_of_no_trials_is_unknown(nothing: list[WalkedPathway]) -> None:
    for metric in (wpsr, matcr, p_atsr):
        with pytest.raises(ValueError, match="at least one task"):
            metric(nothing)


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


def test_pass_at_4_is_that_of_naturalgaia_and_leaves_out_queries_with_few_attempts() -> None:
    """Mobile-Agent-e at level 1: P@4 is 100.0 %, PC-Agent's 66.7 %."""
    assert mean_pass_at_k([QueryAttempts(4, 1)] * 15, 4) == 1.0
    solved = [QueryAttempts(4, 2)] * 10 + [QueryAttempts(4, 0)] * 5
    assert mean_pass_at_k(solved, 4) == pytest.approx(0.667, abs=5e-4)
    assert mean_pass_at_k(solved, 1) == pytest.approx(20 / 60)
    assert mean_pass_at_k([QueryAttempts(3, 3), QueryAttempts(4, 0)], 4) == 0.0
    assert mean_pass_at_k([QueryAttempts(1, 1)], 4) is None
    with pytest.raises(ValueError, match="pass@4 of 1 successes in 1 attempts"):
        pass_at_k(QueryAttempts(1, 1), 4)


@pytest.mark.parametrize(("n", "c", "k"), [(5, 2, 3), (6, 1, 1), (4, 4, 2), (3, 0, 2)])
def test_the_estimate_is_the_mean_over_all_draws_of_k_attempts(n: int, c: int, k: int) -> None:
    outcomes = [True] * c + [False] * (n - c)
    draws = list(itertools.combinations(outcomes, k))
    assert pass_at_k(QueryAttempts(n, c), k) == pytest.approx(sum(map(any, draws)) / len(draws))


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
