"""Digests of training examples: what curating must know of a row, with hashes in the place of its texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
