"""Whether a judge is precise enough to learn from what it calls Correct."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from trajmill.schemas.tables.round_summary import JudgeQuality
from trajmill.stages.critics.calibration.agreement import agreement


class Precision(StrEnum):
    """How the precision of a judge compares with its floor."""

    ENOUGH = "enough"
    """It is at the floor or above it."""
    TOO_LOW = "too_low"
    """It is below the floor."""
    UNKNOWN = "unknown"
    """Nothing that the judge called Correct has a known outcome."""


def precise_enough(counts: Iterable[JudgeQuality], floor: float) -> Precision:
    """Compare the measured precision, which is the point estimate and no end of its interval, with the floor.

    Args:
        counts: how often the decisions of a judge agreed with known outcomes. Several counts are those of several
            versions of the judge; the least precise one decides.
        floor: the lowest precision that is enough.
    """
    known = [rate for rate in (agreement(each).precision.value for each in counts) if rate is not None]
    if not known:
        return Precision.UNKNOWN
    return Precision.ENOUGH if min(known) >= floor else Precision.TOO_LOW
