"""The judged attempts so far: they decide which queries are tried, guided and replayed."""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class JudgedAttempt(NamedTuple):
    round: int
    query_id: str
    trajectory_id: str
    steps: int
    guided: bool
    correct: bool


class ShortSuccess(NamedTuple):
    """A correct attempt; the smallest is the shortest, and of equal lengths the one with the smaller id."""

    steps: int
    trajectory_id: str
    round: int


class QueryHistory(NamedTuple):
    """The figures of one query; guided attempts count only in `shortest` and `successes`."""

    tried: int = 0
    correct: int = 0
    average: float = 0.0
    """Moving average of the outcomes."""
    shortest: ShortSuccess | None = None
    shortest_unguided: ShortSuccess | None = None
    successes: int = 0

    def after(self, attempt: JudgedAttempt) -> QueryHistory:
        shortest, unguided = self.shortest, self.shortest_unguided
        successes = self.successes + attempt.correct
        if attempt.correct:
            success = ShortSuccess(attempt.steps, attempt.trajectory_id, attempt.round)
            shortest, unguided = min(shortest or success, success), min(unguided or success, success)
        if attempt.guided:
            return self._replace(shortest=shortest, successes=successes)
        return QueryHistory(
            tried=self.tried + 1,
            correct=self.correct + attempt.correct,
            average=average_after(self.average, attempt.correct),
            shortest=shortest,
            shortest_unguided=unguided,
            successes=successes,
        )


class History(NamedTuple):
    """The figures of all judged attempts of some rounds of a run."""

    queries: Mapping[str, QueryHistory]
    """By query id, the query tried last without guidance at the end."""

    @classmethod
    def of(cls, attempts: Iterable[JudgedAttempt]) -> History:
        """Count attempts, which come oldest first."""
        queries: dict[str, QueryHistory] = {}
        for attempt in attempts:
            before = queries.get(attempt.query_id, QueryHistory())
            if not attempt.guided:
                queries.pop(attempt.query_id, None)
            queries[attempt.query_id] = before.after(attempt)
        return cls(queries)

    def averages(self, query_ids: Collection[str]) -> dict[str, float]:
        return {each: self.queries.get(each, QueryHistory()).average for each in query_ids}

    def rounds_of(self, trajectory_ids: Collection[str]) -> dict[str, int]:
        """Return the rounds of those trajectories that are a shortest success, by trajectory id."""
        found = (one for each in self.queries.values() for one in (each.shortest, each.shortest_unguided) if one)
        wanted = set(trajectory_ids)
        return {one.trajectory_id: one.round for one in found if one.trajectory_id in wanted}

    def shares(self) -> dict[str, float]:
        """Return the share of correct unguided attempts at each query; the query tried last comes last."""
        return {name: each.correct / each.tried for name, each in self.queries.items() if each.tried}

    def failures(self) -> dict[str, int]:
        """Return the number of failed unguided attempts at each query."""
        return {name: each.tried - each.correct for name, each in self.queries.items()}

    def unsettled(self) -> list[str]:
        """Return the tried queries, sorted, with a success to learn from and unguided attempts that often fail."""
        known = ((name, each) for name, each in self.queries.items() if each.tried > 0 and each.successes > 0)
        return sorted(name for name, each in known if each.average < _SETTLED)

    def shortest_success(self, *, guided: bool = True) -> dict[str, str]:
        """Return by query the id of its shortest correct trajectory; `guided` whether those with guidance count."""
        found = {name: each.shortest if guided else each.shortest_unguided for name, each in self.queries.items()}
        return {name: success.trajectory_id for name, success in found.items() if success}


_SETTLED = 0.7
"""Success average from which unguided attempts at a query seldom differ."""
_MEMORY = 0.5
"""Weight of the earlier attempts in a success average when one more attempt is counted."""
_CEILING = 1.15
"""A query that always succeeds keeps a weight of 0.15: it is still tried now and then."""


def average_after(average: float, success: bool) -> float:
    """Return the moving average of a query's outcomes with one more outcome; it is 0 before the first."""
    return _MEMORY * average + (1 - _MEMORY) * success


def task_weight(average: float) -> float:
    """Return the weight of a query with a success average from 0 to 1: from 1.15 (never succeeds) to 0.15 (always)."""
    return _CEILING - average


class Attempts(NamedTuple):
    query_id: str
    attempts: int


def plan_attempts(averages: Mapping[str, float], total: int, seed: int, group_size: int = 1) -> list[Attempts]:
    """Share `total` attempts among queries by `task_weight`, whole groups at a time, in order of query id."""
    if not averages:
        return []
    order = sorted(averages)
    draw = random.Random(seed)
    draw.shuffle(order)
    ends = list(itertools.accumulate(task_weight(averages[query_id]) for query_id in order))
    groups = total // group_size
    stride = ends[-1] / groups if groups else 0.0
    offset = draw.random()
    counts = dict.fromkeys(order, 0)
    for index in range(groups):
        spot = bisect.bisect_right(ends, (index + offset) * stride)
        counts[order[min(spot, len(order) - 1)]] += group_size
    return [Attempts(query_id, counts[query_id]) for query_id in sorted(counts) if counts[query_id]]


def with_task_weights(examples: pa.Table, averages: Mapping[str, float]) -> pa.Table:
    """Multiply `loss_weight` by the query's task weight, scaled to a mean of 1; a new query never succeeded."""
    if examples.num_rows == 0:
        return examples
    queries = examples["query_id"].combine_chunks().dictionary_encode()
    factors = np.array([task_weight(averages.get(query_id, 0.0)) for query_id in queries.dictionary.to_pylist()])
    weights = examples["loss_weight"].to_numpy() * factors[queries.indices.to_numpy()]
    scaled = pa.array(np.round(weights * (len(weights) / weights.sum()), 12))  # equal weights are 1, not nearly
    position = examples.schema.get_field_index("loss_weight")
    return examples.set_column(position, examples.schema.field(position), pc.cast(scaled, pa.float64()))
