"""Rates of success: per split, pass@k, and on tasks made of atomic tasks (NaturalGAIA 3.3 and table 1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.trajectory import Trajectory


class MeasuredEpisode(NamedTuple):
    """One episode with a reward."""

    split: Split
    success: bool


def success_by_split(episodes: Iterable[MeasuredEpisode]) -> tuple[SplitSuccess, ...]:
    """Count successes per split, in the order of the splits' names; splits without episodes are left out."""
    counts: dict[Split, list[bool]] = {}
    for episode in episodes:
        counts.setdefault(episode.split, []).append(episode.success)
    return tuple(
        SplitSuccess(split=split, queries=len(counts[split]), successes=sum(counts[split])) for split in sorted(counts)
    )


class WalkedPathway(NamedTuple):
    """One task instance of a causal pathway, as an agent left it."""

    solved: tuple[bool, ...]
    """By atomic task in order; those after a path collapse are not solved."""
    apps: int
    """Number of distinct apps."""

    @property
    def difficulty(self) -> int:
        """Grows with the number of atomic tasks and the number of apps.

        A sum: table 1 of NaturalGAIA agrees with a sum where each atomic task has an app of its own, and with no
        product.
        """
        return len(self.solved) + self.apps

    @property
    def completed(self) -> int:
        """Number of atomic tasks that were solved in a row from the start."""
        return sum(1 for _ in takewhile(bool, self.solved))


def walked_pathway(query: Query, attempt: Trajectory) -> WalkedPathway:
    """Return a stored attempt at a causal pathway; after a failure, nothing is solved."""
    if not query.atomic_tasks:
        raise ValueError(f"the query {query.query_id} is no causal pathway")
    done = attempt.atomic_done or 0
    return WalkedPathway(tuple(place < done for place in range(len(query.atomic_tasks))), len(query.apps))


def position_weight(position: int) -> float:
    """p(i) of p-ATSR for the i-th atomic task, from 1 on: 2i + 1.

    The paper only says that it increases. With this weight its table 1 comes out to the last digit.
    """
    return 2.0 * position + 1.0


def wpsr(walked: Sequence[WalkedPathway]) -> float:
    """Weighted Pathway Success Rate: the share of solved tasks, each weighted by its difficulty."""
    _check(walked)
    return sum(each.difficulty for each in walked if all(each.solved)) / sum(each.difficulty for each in walked)


def matcr(walked: Sequence[WalkedPathway]) -> float:
    """Mean Atomic Tasks Completion Ratio: the mean share of atomic tasks that were solved in a row from the start."""
    _check(walked)
    return sum(each.completed / len(each.solved) for each in walked) / len(walked)


def p_atsr(walked: Sequence[WalkedPathway], weight: Callable[[int], float] = position_weight) -> float:
    """Positional-Weighted Atomic Tasks Success Rate: solved atomic tasks by weight, over all by weight.

    `weight` is p(i) of the position i, from 1 on; increasing.
    """
    _check(walked)
    places = [(weight(place), solved) for each in walked for place, solved in enumerate(each.solved, 1)]
    return sum(value for value, solved in places if solved) / sum(value for value, _ in places)


def _check(walked: Sequence[WalkedPathway]) -> None:
    if not walked or not all(each.solved for each in walked):
        raise ValueError("these metrics need at least one task, and an atomic task in each")


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
