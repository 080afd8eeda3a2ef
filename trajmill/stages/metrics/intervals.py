"""Confidence intervals, for every rate that the project reports."""

from __future__ import annotations

import math
from typing import NamedTuple


class Interval(NamedTuple):
    """Lower and upper end of a confidence interval of a rate, both in [0, 1]."""

    low: float
    high: float


def wilson(successes: int, n: int, z: float = 1.959964) -> Interval:
    """Return the Wilson score interval of a rate of `successes` in `n`; `z` is the normal quantile, 95 % by default.

    It is within [0, 1] and keeps its coverage near the ends and for small `n`. For `n` = 0 it is (0, 1).
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials")
    if n == 0:
        return Interval(0.0, 1.0)
    rate, square = successes / n, z * z
    middle = (rate + square / (2 * n)) / (1 + square / n)
    half = z / (1 + square / n) * math.sqrt(rate * (1 - rate) / n + square / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return Interval(low, high)
