"""Curates the training set of a release: chooses trajectories, drops duplicates, then weighs tasks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.stages.curate.history import with_task_weights

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
KEPT_PER_QUERY = 3
_SEPARATOR = "\x1f"
_HASH_BYTES = 16
_ROWS_AT_ONCE = 2000


def digests_of(examples: pa.Table) -> pa.Table:
    """Return the digests of rows of table `examples`, which has at least the columns `DIGESTED`."""
    conversations: list[bytes] = []
    replies: list[bytes] = []
    screens: list[str | None] = []
    for batch in examples.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for messages, shown in zip(batch["messages"].to_pylist(), batch["screens"].to_pylist(), strict=True):
            texts = [text for message in messages for text in (message["role"], message["content"])]
            conversations.append(_hash(_SEPARATOR.join([*texts, _SEPARATOR.join(shown)])))
            replies.append(_hash(messages[-1]["content"]))
            screens.append(shown[-1] if shown else None)
    made = {"conversation": conversations, "reply": replies, "last_screen": screens}
    columns = [
        pa.array(made[field.name], field.type) if field.name in made else examples[field.name].cast(field.type)
        for field in DIGESTS
    ]
    return pa.table(columns, schema=DIGESTS)


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).digest()


def without_duplicates(examples: pa.Table) -> pa.Table:
    """Keep the first row of each distinct `conversation`, in the order of the table."""
    if examples.num_rows == 0:
        return examples
    indices = examples["conversation"].combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(indices, return_index=True)
    return examples.take(pa.array(np.sort(first)))


def with_few_equal_replies(examples: pa.Table, most: int) -> pa.Table:
    """Keep at most `most` rows of each `reply`, those with the smallest ids, in the order of the table.

    Replies of every attempt, such as the last one, would otherwise dominate the training data.
    """
    replies, ids = examples["reply"].to_pylist(), examples["example_id"].to_pylist()
    seen: Counter[bytes] = Counter()
    kept = []
    for at in sorted(range(len(ids)), key=ids.__getitem__):
        seen[replies[at]] += 1
        if seen[replies[at]] <= most:
            kept.append(at)
    return examples.take(pa.array(sorted(kept), pa.int64()))


class Success(NamedTuple):
    """One trajectory that was judged correct."""

    query_id: str
    trajectory_id: str
    steps: int


def shortest_successes(successes: Iterable[Success], per_query: int = KEPT_PER_QUERY) -> frozenset[str]:
    """Return the ids of the `per_query` shortest successes of each query, by smaller id if equally long."""
    by_query: dict[str, set[Success]] = {}
    for success in successes:
        by_query.setdefault(success.query_id, set()).add(success)
    ranked = (sorted(found, key=lambda each: (each.steps, each.trajectory_id)) for found in by_query.values())
    return frozenset(success.trajectory_id for found in ranked for success in found[:per_query])


def successes_in(examples: pa.Table) -> list[Success]:
    """Return the trajectories of stored examples; the last example of one gives its length.

    Reads `query_id`, `trajectory_id` and `step_index`.
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
    """Drops rows whose screens look like those of others; None keeps all."""


def chosen_trajectories(examples: pa.Table, per_query: int, alike: Alike = Alike()) -> frozenset[str]:
    """Return the ids of the trajectories that a training set learns from.

    Args:
        examples: only the columns `query_id`, `trajectory_id` and `step_index` are read.
        per_query: how many successes of a query are learned from.
        alike: queries that share `per_query`.
    """
    successes = successes_in(examples)
    shared = (each._replace(query_id=alike.queries.get(each.query_id, each.query_id)) for each in successes)
    return shortest_successes(shared, per_query)


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


POSITIVE: Final = "reflector_positive"
NEGATIVE: Final = "reflector_negative"
"""Variants of the rows of a Reflector."""


def retained_reflections(positive: Mapping[int, bool]) -> frozenset[int]:
    """Return the steps of one trajectory whose reflections are learned from, by the paper's two rules.

    A negative reflection on step i is kept if step i + 1 was called positive. Otherwise reflections are kept only if
    all steps of the trajectory were called positive.

    Args:
        positive: by index of the step, whether the Reflector called it a success.
    """
    if all(positive.values()):
        return frozenset(positive)
    return frozenset(step for step, success in positive.items() if not success and positive.get(step + 1, False))


def with_equal_reflections(examples: pa.Table) -> pa.Table:
    """Keep as many positive as negative reflections, those with the smallest ids; rows of other roles stay.

    Ids are hashes: the smallest ones are a random sample.

    Args:
        examples: in the schema `DIGESTS`; only `example_id` and `variant` are read.
    """
    positive, negative = (
        sorted(examples.filter(pc.equal(examples["variant"], variant))["example_id"].to_pylist())
        for variant in (POSITIVE, NEGATIVE)
    )
    size = min(len(positive), len(negative))
    surplus = pa.array([*positive[size:], *negative[size:]], pa.string())
    return examples.filter(pc.invert(pc.is_in(examples["example_id"], surplus)))
