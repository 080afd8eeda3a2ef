"""Rates of success, confidence intervals for every rate of the project, and the comparison of two policies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.query import Split


def success_by_split(episodes: Iterable[tuple[Split, bool]]) -> tuple[SplitSuccess, ...]:
    """Count successes per split, in the order of the splits' names; splits without episodes are left out."""
    counts: dict[Split, list[bool]] = {}
    for split, success in episodes:
        counts.setdefault(split, []).append(success)
    return tuple(
        SplitSuccess(split=split, queries=len(found), successes=sum(found)) for split, found in sorted(counts.items())
    )


class PairedOutcomes(NamedTuple):
    """Counts of queries by which of the two policies, A and B, passed them."""

    both: int
    lost: int
    """Only A passed."""
    gained: int
    """Only B passed."""
    neither: int

    @property
    def queries(self) -> int:
        return sum(self)

    @property
    def passed_a(self) -> int:
        return self.both + self.lost

    @property
    def passed_b(self) -> int:
        return self.both + self.gained

    @property
    def difference(self) -> float:
        """The success rate of B minus that of A, in [-1, 1]; 0 without queries."""
        return (self.gained - self.lost) / max(self.queries, 1)

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the difference (Newcombe, Statistics in Medicine 17, 1998, p. 2635, method 10).

        It joins the Wilson intervals of both rates by the correlation of the outcomes.
        """
        n = self.queries
        if n == 0:
            return Interval(-1.0, 1.0)
        b, a = wilson(self.passed_b, n), wilson(self.passed_a, n)
        below_b, above_b = self.passed_b / n - b.low, b.high - self.passed_b / n
        below_a, above_a = self.passed_a / n - a.low, a.high - self.passed_a / n
        phi = self._correlation()
        low = math.sqrt(max(below_b**2 - 2 * phi * below_b * above_a + above_a**2, 0.0))
        high = math.sqrt(max(above_b**2 - 2 * phi * above_b * below_a + below_a**2, 0.0))
        return Interval(self.difference - low, self.difference + high)

    def _correlation(self) -> float:
        margins = self.passed_b * self.passed_a * (self.queries - self.passed_b) * (self.queries - self.passed_a)
        if margins == 0:
            return 0.0
        numerator = float(self.both * self.neither - self.gained * self.lost)
        if numerator > 0:  # A continuity correction, which stops at 0.
            numerator = max(numerator - self.queries / 2, 0.0)
        return numerator / math.sqrt(margins)

    @property
    def p_value(self) -> float:
        """The exact two-sided McNemar test: of the queries that changed sides, each side is equally likely."""
        changed, fewer = self.gained + self.lost, min(self.gained, self.lost)
        tail = sum(math.comb(changed, count) for count in range(fewer + 1))
        return min(1.0, float(2 * tail / 2**changed))

    @property
    def p_value_of_losses(self) -> float:
        """The same test with one side: the probability of `lost` or more if both policies are equally good."""
        changed = self.gained + self.lost
        return float(sum(math.comb(changed, count) for count in range(self.lost, changed + 1)) / 2**changed)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


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
