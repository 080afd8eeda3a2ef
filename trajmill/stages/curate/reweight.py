"""Task re-weighting (paper 2.2.3): queries that often succeed are tried and trained on less, rare successes more."""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_MEMORY = 0.5
"""Weight of the earlier attempts in a success average when one more attempt is counted."""
_CEILING = 1.15
"""A query that always succeeds keeps a weight of 0.15: it is still tried now and then."""


def average_after(average: float, success: bool) -> float:
    """Return the moving average of a query's outcomes with one more outcome; it is 0 before the first."""
    return _MEMORY * average + (1 - _MEMORY) * success


def task_weight(average: float) -> float:
    """Return the weight of a query with a success average from 0 to 1: from 1.15 (never succeeds) to 0.15 (always)."""
    if not 0.0 <= average <= 1.0:
        raise ValueError(f"a success average of {average}")
    return _CEILING - average


class Attempts(NamedTuple):
    """How often a query is to be tried."""

    query_id: str
    attempts: int


def plan_attempts(averages: Mapping[str, float], total: int, seed: int, group_size: int = 1) -> list[Attempts]:
    """Share `total` attempts among queries by `task_weight`, in order of query id, whole groups at a time.

    Uses systematic sampling: one random offset, then equal strides along the summed weights. Chance leaves out no
    query; every count is exact to below one group.

    Args:
        averages: success average by query id.
        total: attempts to share out; those that make no whole group are left out.
        seed: decides the offset and the order of the queries.
        group_size: attempts at a query each time that it is chosen.
    """
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
    """Multiply `loss_weight` by the query's task weight, scaled to a mean of 1 over the table.

    Args:
        examples: in the schema `DIGESTS`; only `query_id` and `loss_weight` are read.
        averages: success average by query id; a query without one counts as never succeeded.
    """
    if examples.num_rows == 0:
        return examples
    queries = examples["query_id"].combine_chunks().dictionary_encode()
    factors = np.array([task_weight(averages.get(query_id, 0.0)) for query_id in queries.dictionary.to_pylist()])
    weights = examples["loss_weight"].to_numpy() * factors[queries.indices.to_numpy()]
    scaled = pa.array(weights * (len(weights) / weights.sum()))
    position = examples.schema.get_field_index("loss_weight")
    return examples.set_column(position, examples.schema.field(position), pc.cast(scaled, pa.float64()))
