from __future__ import annotations

import pytest

from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.query import Split
from trajmill.stages.critics.calibration.precision import Precision
from trajmill.stages.training.promotion import compare, reason_not_to_train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("successes", "promoted"), [(50, True), (49, True), (40, False)])
def test_a_policy_is_promoted_unless_it_is_worse_by_more_than_the_tolerance(successes: int, promoted: bool) -> None:
    old = (SplitSuccess(split=Split.HELDOUT_SLOTS, queries=100, successes=50),)
    new = (
        SplitSuccess(split=Split.HELDOUT_SLOTS, queries=100, successes=successes),
        SplitSuccess(split=Split.TRAIN, queries=100, successes=100),
        SplitSuccess(split=Split.HELDOUT_APPS, queries=100, successes=100),
    )
    assert compare(old, new, tolerance=0.02).promoted is promoted


def test_a_round_trains_unless_something_speaks_against_it() -> None:
    assert reason_not_to_train(1, "examples", Precision.ENOUGH, waits_for_last_round=False) == ""
    assert reason_not_to_train(1, "rl_steps", Precision.UNKNOWN, waits_for_last_round=False) == ""


@pytest.mark.parametrize(
    ("rows", "learns_from", "precision", "waits", "reason"),
    [
        (0, "examples", Precision.ENOUGH, False, "no trajectory was accepted"),
        (0, "rl_steps", Precision.ENOUGH, False, "no group has rewards that differ"),
        (1, "examples", Precision.TOO_LOW, False, "the judge's precision is under its floor"),
        (1, "examples", Precision.ENOUGH, True, "a frozen explorer is trained once, at the end"),
    ],
)
def test_the_reason_not_to_train_is_named(
    rows: int, learns_from: str, precision: Precision, waits: bool, reason: str
) -> None:
    assert reason_not_to_train(rows, learns_from, precision, waits) == reason
