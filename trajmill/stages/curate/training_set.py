"""Curates the training set of a release: chooses trajectories, drops duplicates, then weighs tasks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.stages.curate.reweight import with_task_weights

DIGESTS = pa.schema(
    [
        ("example_id", pa.string()),
        ("kind", pa.string()),
        ("query_id", pa.string()),
        ("trajectory_id", pa.string()),
        ("step_index", pa.int32()),
        ("round", pa.int64()),
        ("loss_weight", pa.float64()),
        ("variant", pa.string()),
        ("written_by", pa.string()),
        ("conversation", pa.binary()),
        ("reply", pa.binary()),
        ("last_screen", pa.string()),
    ]
)
"""`conversation` is equal for equal messages and screens, `reply` for an equal last message; `last_screen` may be
null. The other columns are those of table `examples`."""

DIGESTED = (*DIGESTS.names[:-3], "messages", "screens")
"""The columns of table `examples` that digests are made from."""
_SEPARATOR = "\x1f"
_HASH_BYTES = 16
_ROWS_AT_ONCE = 2000


def digests_of(examples: pa.Table) -> pa.Table:
    """The digests of rows of table `examples`, which has at least the columns `DIGESTED`."""
    conversations: list[bytes] = []
    replies: list[bytes] = []
    screens: list[str | None] = []
    for batch in examples.to_batches(max_chunksize=_ROWS_AT_ONCE):
        conversations += _hashes(_conversations(batch).to_pylist())
        replies += _hashes(messages[-1]["content"] for messages in batch["messages"].to_pylist())
        screens += [shown[-1] if shown else None for shown in batch["screens"].to_pylist()]
    made = {"conversation": conversations, "reply": replies, "last_screen": screens}
    columns = [
        pa.array(made[field.name], field.type) if field.name in made else examples[field.name].cast(field.type)
        for field in DIGESTS
    ]
    return pa.table(columns, schema=DIGESTS)


def _hashes(texts: Iterable[str]) -> list[bytes]:
    return [hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).digest() for text in texts]


def _conversations(batch: pa.RecordBatch) -> pa.LargeStringArray:
    """For each row one string that holds all its messages and screens."""
    messages, screens = batch.column("messages"), batch.column("screens")
    flat = messages.flatten()
    lines = pc.binary_join_element_wise(flat.field("role"), flat.field("content"), _SEPARATOR)
    offsets = np.zeros(batch.num_rows + 1, np.int32)
    np.cumsum(pc.list_value_length(messages).to_numpy(zero_copy_only=False), out=offsets[1:])
    conversation = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), lines), _SEPARATOR)
    screen_ids = pc.binary_join(screens, _SEPARATOR)
    return pc.binary_join_element_wise(conversation, screen_ids, _SEPARATOR).cast(pa.large_string())


def without_duplicates(examples: pa.Table) -> pa.Table:
    """The first row of each distinct pair of messages and screens, in the order of the table.

    Args:
        examples: in the schema `DIGESTS`; only `conversation` is read.
    """
    if examples.num_rows == 0:
        return examples
    indices = examples["conversation"].combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(indices, return_index=True)
    return examples.take(pa.array(np.sort(first)))


def with_few_equal_replies(examples: pa.Table, most: int) -> pa.Table:
    """Keep at most `most` rows of each reply, chosen by their ids, in the order of the table.

    Replies of every attempt, such as the last one, would otherwise dominate the training data.

    Args:
        examples: in the schema `DIGESTS`; only `example_id` and `reply` are read.
        most: rows that are kept of those whose last message is the same.
    """
    if examples.num_rows == 0:
        return examples
    replies = examples["reply"].to_pylist()
    ids = examples["example_id"].to_pylist()
    seen: Counter[bytes] = Counter()
    kept = []
    for at in sorted(range(len(ids)), key=ids.__getitem__):
        seen[replies[at]] += 1
        if seen[replies[at]] <= most:
            kept.append(at)
    return examples.take(pa.array(sorted(kept), pa.int64()))


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
