"""Removes duplicates among training examples: equal conversations, and replies that are given over and over."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa


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
    """At most so many rows of each reply, chosen by their ids, in the order of the table.

    What is said at every attempt, such as that the task is done, would else be most of what is learned.

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
