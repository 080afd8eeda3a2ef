from __future__ import annotations

import pytest

from schemas.round_summary import StageCount
from stages.metrics.funnel import funnel, reason_counts
from stages.metrics.yields import Effort, effort, time_shares, yield_of


def stage(name: str, rows_in: int, rows_out: int, seconds: float = 1.0, cost: float = 0.0) -> StageCount:
    return StageCount(stage=name, rows_in=rows_in, rows_out=rows_out, seconds=seconds, cost=cost)


def test_what_came_in_came_out_or_was_dropped() -> None:
    judge, derive, empty = funnel([stage("judge", 600, 150), stage("derive", 150, 1200), stage("guide", 0, 0)])
    assert judge == ("judge", 600, 150, 450, 0.25)
    assert derive == ("derive", 150, 1200, 0, None)
    assert empty.kept is None


def test_reasons_are_counted_most_frequent_first() -> None:
    assert reason_counts(["b", "a", "c", "c"]) == (("c", 2), ("a", 1), ("b", 1))


def test_yield_is_effort_per_accepted_trajectory() -> None:
    stages = [stage("rollout", 1, 1, seconds=30.0, cost=2.0), stage("judge", 1, 1, seconds=10.0, cost=1.0)]
    assert effort(stages) == (40.0, 3.0)
    assert yield_of(effort(stages), attempts=100, accepted=20) == pytest.approx((0.2, 2.0, 0.15))
    assert yield_of(Effort(1.0, 1.0), attempts=5, accepted=0) == (0.0, None, None)
    assert yield_of(Effort(1.0, 1.0), attempts=0, accepted=0) == (None, None, None)
    assert time_shares(stages) == (("rollout", 0.75), ("judge", 0.25))
    assert time_shares([stage("a", 1, 1, seconds=0.0)]) == (("a", 0.0),)
