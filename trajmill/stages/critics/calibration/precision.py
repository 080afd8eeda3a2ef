"""Decides whether a judge is precise enough to train on the trajectories that it calls Correct."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from trajmill.schemas.tables.round_summary import JudgeQuality
from trajmill.stages.critics.calibration.agreement import agreement


class Precision(StrEnum):
    """How the precision of a judge compares with its floor."""

    ENOUGH = "enough"
    TOO_LOW = "too_low"
    UNKNOWN = "unknown"
    """No trajectory that the judge called Correct has a known outcome."""


def precise_enough(counts: Iterable[JudgeQuality], floor: float) -> Precision:
    """Compare the measured precision with its floor; the least precise version of the judge decides."""
    known = [rate for rate in (agreement(each).precision.value for each in counts) if rate is not None]
    if not known:
        return Precision.UNKNOWN
    return Precision.ENOUGH if min(known) >= floor else Precision.TOO_LOW
