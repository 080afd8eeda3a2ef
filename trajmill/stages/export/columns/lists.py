"""Builds list columns from their lengths and splits them, without a Python object for each row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]


def list_array(lengths: Integers, values: pa.Array) -> pa.ListArray:
    """A list column from the length of each row and all values one after another."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def list_lengths(lists: pa.ListArray) -> Integers:
    """The length of each row of a list column without nulls."""
    lengths: Integers = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


class HeadAndLast(NamedTuple):
    """A list column split before the last element of each row."""

    head: pa.ListArray
    last: pa.ListArray
    """Lists of one element."""


def cut_last(lists: pa.ListArray) -> HeadAndLast:
    """Each row without its last element, and its last element alone. No row may be empty."""
    lengths, flat = list_lengths(lists), lists.flatten()
    last = np.cumsum(lengths) - 1
    is_head = np.ones(len(flat), bool)
    is_head[last] = False
    return HeadAndLast(
        list_array(lengths - 1, flat.filter(pa.array(is_head))),
        list_array(np.ones(len(lengths), np.int64), flat.take(pa.array(last))),
    )
