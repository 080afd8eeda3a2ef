"""pass@k: the chance that at least one of k attempts at a query succeeds (P@1 and P@4 in table 1 of NaturalGAIA)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple


class QueryAttempts(NamedTuple):
    """The attempts at one query, and how many of them succeeded."""

    attempts: int
    successes: int


def pass_at_k(tried: QueryAttempts, k: int) -> float:
    """Return the unbiased estimate for one query from n >= k attempts with c successes: 1 - C(n - c, k) / C(n, k).

    With n = k it is 1 if any attempt succeeded, as in NaturalGAIA. Chen et al. 2021, equation 1.
    """
    n, c = tried
    if not 1 <= k <= n or not 0 <= c <= n:
        raise ValueError(f"pass@{k} of {c} successes in {n} attempts")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def mean_pass_at_k(tried: Iterable[QueryAttempts], k: int) -> float | None:
    """Return the mean of `pass_at_k` over the queries with at least `k` attempts; None if there are none."""
    shares = [pass_at_k(each, k) for each in tried if each.attempts >= k]
    return sum(shares) / len(shares) if shares else None
