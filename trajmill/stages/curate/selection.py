"""Chooses the successes to train on: the shortest of each query, so that easy queries do not outnumber hard ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

KEPT_PER_QUERY = 3


class Success(NamedTuple):
    """One trajectory that was judged correct."""

    query_id: str
    trajectory_id: str
    steps: int


def shortest_successes(successes: Iterable[Success], per_query: int = KEPT_PER_QUERY) -> frozenset[str]:
    """Ids of the `per_query` shortest successes of each query; of equal lengths the smaller id comes first."""
    by_query: dict[str, set[Success]] = {}
    for success in successes:
        by_query.setdefault(success.query_id, set()).add(success)
    kept: set[str] = set()
    for found in by_query.values():
        ranked = sorted(found, key=lambda success: (success.steps, success.trajectory_id))
        kept.update(success.trajectory_id for success in ranked[:per_query])
    return frozenset(kept)


def successes_in(examples: pa.Table) -> list[Success]:
    """The successful trajectories that stored examples come from; the last example of a trajectory gives its length.

    Args:
        examples: only the columns `query_id`, `trajectory_id` and `step_index` are read.
    """
    ends = examples.group_by(["query_id", "trajectory_id"]).aggregate([("step_index", "max")])
    columns = (ends[name].to_pylist() for name in ("query_id", "trajectory_id", "step_index_max"))
    return [Success(query, trajectory, last + 1) for query, trajectory, last in zip(*columns, strict=True)]
