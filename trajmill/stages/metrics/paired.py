"""A paired comparison: two policies, each once on the same queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from trajmill.stages.metrics.intervals import Interval, wilson


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
        passed_b, passed_a = self.both + self.gained, self.both + self.lost
        b, a = wilson(passed_b, n), wilson(passed_a, n)
        below_b, above_b = passed_b / n - b.low, b.high - passed_b / n
        below_a, above_a = passed_a / n - a.low, a.high - passed_a / n
        phi = self._correlation()
        low = math.sqrt(max(below_b**2 - 2 * phi * below_b * above_a + above_a**2, 0.0))
        high = math.sqrt(max(above_b**2 - 2 * phi * above_b * below_a + below_a**2, 0.0))
        return Interval(self.difference - low, self.difference + high)

    def _correlation(self) -> float:
        passed_b, passed_a = self.both + self.gained, self.both + self.lost
        margins = passed_b * passed_a * (self.queries - passed_b) * (self.queries - passed_a)
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


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted
