"""Removes duplicate training examples: the same conversation about the same screens."""

from __future__ import annotations

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
