"""Removes duplicates among training examples: equal conversations, and replies that are given over and over."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SEPARATOR = "\x1f"


def without_duplicates(examples: pa.Table) -> pa.Table:
    """The first row of each distinct pair of messages and screens, in the order of the table.

    Args:
        examples: in the schema of table `examples`; only `messages` and `screens` are compared.
    """
    if examples.num_rows == 0:
        return examples
    keys = pa.chunked_array([_keys(batch) for batch in examples.to_batches() if batch.num_rows])
    indices = keys.combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(indices, return_index=True)
    return examples.take(pa.array(np.sort(first)))


def with_few_equal_replies(examples: pa.Table, most: int) -> pa.Table:
    """At most so many rows of each reply, chosen by their ids, in the order of the table.

    What is said at every attempt, such as that the task is done, would else be most of what is learned.

    Args:
        examples: in the schema of table `examples`; only `example_id` and the last of `messages` are read.
        most: rows that are kept of those whose last message is the same.
    """
    if examples.num_rows == 0:
        return examples
    replies = [messages[-1]["content"] for messages in examples["messages"].to_pylist()]
    ids = examples["example_id"].to_pylist()
    seen: Counter[str] = Counter()
    kept = []
    for at in sorted(range(len(ids)), key=ids.__getitem__):
        seen[replies[at]] += 1
        if seen[replies[at]] <= most:
            kept.append(at)
    return examples.take(pa.array(sorted(kept), pa.int64()))


def _keys(batch: pa.RecordBatch) -> pa.LargeStringArray:
    """For each row one string that holds all its messages and screens."""
    messages, screens = batch.column("messages"), batch.column("screens")
    flat = messages.flatten()
    lines = pc.binary_join_element_wise(flat.field("role"), flat.field("content"), _SEPARATOR)
    offsets = np.zeros(batch.num_rows + 1, np.int32)
    np.cumsum(pc.list_value_length(messages).to_numpy(zero_copy_only=False), out=offsets[1:])
    conversation = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), lines), _SEPARATOR)
    screen_ids = pc.binary_join(screens, _SEPARATOR)
    return pc.binary_join_element_wise(conversation, screen_ids, _SEPARATOR).cast(pa.large_string())
