from __future__ import annotations

import pytest

from schemas.policy_version import SplitSuccess
from schemas.query import HELDOUT_SPLITS, Split
from stages.metrics.intervals import wilson
from stages.metrics.success import Outcome, pooled, success_by_split, success_rate

SLOTS, TRAIN = Split.HELDOUT_SLOTS, Split.TRAIN


def test_successes_are_counted_per_split() -> None:
    outcomes = [Outcome(SLOTS, True), Outcome(TRAIN, False), Outcome(SLOTS, False), Outcome(SLOTS, True)]
    counts = success_by_split(outcomes)
    assert [(entry.split, entry.queries, entry.successes) for entry in counts] == [("train", 1, 0), (SLOTS, 3, 2)]
    assert success_by_split([]) == ()


def test_a_rate_has_its_interval() -> None:
    rate = success_rate(SplitSuccess(split=SLOTS, queries=40, successes=30))
    assert rate == (0.75, wilson(30, 40), 40)
    assert success_rate(SplitSuccess(split=SLOTS, queries=0, successes=0)) == (None, (0.0, 1.0), 0)


def test_pooling_weighs_episodes_not_splits() -> None:
    entries = [
        SplitSuccess(split=SLOTS, queries=30, successes=30),
        SplitSuccess(split=Split.HELDOUT_APPS, queries=10, successes=0),
        SplitSuccess(split=TRAIN, queries=99, successes=0),
    ]
    rate = pooled(entries, HELDOUT_SPLITS)
    assert rate.value == pytest.approx(0.75) and rate.n == 40
