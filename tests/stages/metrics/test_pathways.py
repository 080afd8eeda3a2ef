"""WPSR, MATCR and p-ATSR as table 1 of NaturalGAIA has them."""

import pytest

from trajmill.stages.metrics.pathways import WalkedPathway, matcr, p_atsr, wpsr


def walked(completed: int, tasks: int) -> WalkedPathway:
    """A pathway whose atomic tasks each have an app of their own."""
    return WalkedPathway(tuple(place < completed for place in range(tasks)), tasks)


LEVEL_2 = [walked(done, 4) for done in (4, 4, 4, 4, 3, 2, 1, 1, 0, 0)]
"""Claude-sonnet-4 at level 2: ten tasks of four atomic tasks, four of them solved."""
LEVEL_1 = [*(walked(2, 2) for _ in range(7)), *(walked(1, 1) for _ in range(2)), *(walked(0, 2) for _ in range(6))]
"""Nine of fifteen tasks of one or two atomic tasks."""
LEVEL_3 = [*(walked(6, 6) for _ in range(2)), *(walked(0, n) for n in (5, 6, 6, 6, 6, 6, 6, 6))]
"""Two of ten tasks of five to seven atomic tasks, 59 in all."""


def percent(share: float) -> float:
    return round(100 * share, 1)


def test_a_level_of_the_papers_table_comes_out_to_the_last_digit() -> None:
    assert (percent(wpsr(LEVEL_2)), percent(matcr(LEVEL_2)), percent(p_atsr(LEVEL_2))) == (40.0, 57.5, 52.1)


@pytest.mark.parametrize(("level", "share"), [(LEVEL_1, 57.1), (LEVEL_3, 20.3), ([*LEVEL_1, *LEVEL_2, *LEVEL_3], 34.6)])
def test_longer_tasks_weigh_more_as_in_the_papers_table(level: list[WalkedPathway], share: float) -> None:
    assert percent(wpsr(level)) == share


def test_a_solved_task_after_a_collapse_counts_for_p_atsr_alone() -> None:
    one = [WalkedPathway((True, False, True), 1)]
    assert (wpsr(one), matcr(one), p_atsr(one)) == pytest.approx((0.0, 1 / 3, 10 / 15))
    assert p_atsr(one, weight=lambda place: float(place)) == pytest.approx(4 / 6)


@pytest.mark.parametrize("nothing", [[], [WalkedPathway((), 1)]])
def test_the_rate_of_no_trials_is_unknown(nothing: list[WalkedPathway]) -> None:
    for metric in (wpsr, matcr, p_atsr):
        with pytest.raises(ValueError, match="at least one task"):
            metric(nothing)
