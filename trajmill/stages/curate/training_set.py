"""Curates the training set of a release: chooses trajectories, drops duplicates, then weighs tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.stages.curate.dedup import with_few_equal_replies, without_duplicates
from trajmill.stages.curate.reweight import with_task_weights
from trajmill.stages.curate.selection import KEPT_PER_QUERY, shortest_successes, successes_in


class TrainingSet(NamedTuple):
    """The examples of a release, and how many were left out for which reason."""

    examples: pa.Table
    longer_success: int
    """Rows of trajectories that are not among the shortest of their query."""
    duplicate: int
    equal_reply: int
    """Rows left out because enough others have the same reply."""
    near_screen: int = 0
    """Rows left out because another one has the same reply on a screen that looks the same."""


class Alike(NamedTuple):
    """What counts as one although it is not equal."""

    queries: Mapping[str, str] = {}
    """By query id, the query that it counts as; a query that is not named counts as itself."""
    without_alike_screens: Callable[[pa.Table], pa.Table] | None = None
    """Leaves out rows whose screens look like those of others; None keeps all."""


def chosen_trajectories(examples: pa.Table, per_query: int, alike: Alike = Alike()) -> frozenset[str]:
    """Ids of the trajectories that a training set learns from.

    Args:
        examples: only the columns `query_id`, `trajectory_id` and `step_index` are read.
        per_query: how many successes of a query are learned from.
        alike: queries that share `per_query`.
    """
    successes = [
        each._replace(query_id=alike.queries.get(each.query_id, each.query_id)) for each in successes_in(examples)
    ]
    return shortest_successes(successes, per_query)


def training_set(
    examples: pa.Table,
    averages: Mapping[str, float] | None,
    per_query: int = KEPT_PER_QUERY,
    per_reply: int | None = None,
    alike: Alike = Alike(),
) -> TrainingSet:
    """Curate the examples of all rounds so far.

    The result depends on the rows alone, not on the order in which they were stored.

    Args:
        examples: in the schema `DIGESTS`, all of split `train`.
        averages: success average by query id for the loss weights; None leaves all weights as they are.
        per_query: how many successes of a query are learned from.
        per_reply: how many steps with the same reply are learned from; None for all.
        alike: queries that share `per_query`, and screens of which one is enough.
    """
    chosen = chosen_trajectories(examples, per_query, alike)
    kept = examples.filter(pc.is_in(examples["trajectory_id"], pa.array(sorted(chosen), pa.string())))
    ordered = kept.sort_by([("query_id", "ascending"), ("trajectory_id", "ascending"), ("step_index", "ascending")])
    distinct = without_duplicates(ordered)
    apart = distinct if alike.without_alike_screens is None else alike.without_alike_screens(distinct)
    varied = apart if per_reply is None else with_few_equal_replies(apart, per_reply)
    return TrainingSet(
        examples=varied if averages is None else with_task_weights(varied, averages),
        longer_success=examples.num_rows - kept.num_rows,
        duplicate=kept.num_rows - distinct.num_rows,
        equal_reply=apart.num_rows - varied.num_rows,
        near_screen=distinct.num_rows - apart.num_rows,
    )
