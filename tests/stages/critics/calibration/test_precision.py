from __future__ import annotations

import pytest

from trajmill.schemas.tables.policy_version import JudgeQuality
from trajmill.stages.critics.calibration.agreement import Precision, precise_enough

FLOOR = 0.8


def counts(right: int, wrong: int) -> JudgeQuality:
    return JudgeQuality(
        level="trajectory", true_positive=right, false_positive=wrong, true_negative=9, false_negative=9
    )


@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        (3, 0, Precision.ENOUGH),  # however few there are
        (8, 2, Precision.ENOUGH),
        (79, 21, Precision.TOO_LOW),  # though the interval reaches beyond the floor
        (0, 4, Precision.TOO_LOW),
        (0, 0, Precision.UNKNOWN),  # it called nothing Correct
    ],
)
def test_the_measured_precision_decides(right: int, wrong: int, found: Precision) -> None:
    assert precise_enough([counts(right, wrong)], FLOOR) is found


def test_the_least_precise_version_of_a_judge_decides() -> None:
    assert precise_enough([counts(90, 10), counts(0, 0), counts(7, 3)], FLOOR) is Precision.TOO_LOW
    assert precise_enough([counts(90, 10), counts(0, 0)], FLOOR) is Precision.ENOUGH


def test_without_counts_nothing_is_known() -> None:
    assert precise_enough([], FLOOR) is Precision.UNKNOWN
