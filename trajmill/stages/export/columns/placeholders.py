"""Counts image placeholders, and checks that each row has as many as screens."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.stages.export.columns.lists import Integers, list_lengths


def placeholders(messages: pa.ListArray) -> Integers:
    """The number of placeholders in the text of each message of all rows."""
    found = pc.count_substring(messages.flatten().field("content"), IMAGE_PLACEHOLDER)
    counts: Integers = found.to_numpy().astype(np.int64)
    return counts


def check_placeholders(
    found: Integers, messages: pa.ListArray, screen_ids: pa.ListArray, row_ids: pa.StringArray
) -> None:
    """Check that the messages of each row have as many placeholders as the row has screens.

    Args:
        found: the number of placeholders in each message of all rows.
        messages: lists of messages.
        screen_ids: lists of screens.
        row_ids: names of the rows.

    Raises:
        BadInputError: the numbers differ; the message names the first such row.
    """
    owners = np.repeat(np.arange(len(messages)), list_lengths(messages))
    wrong = np.flatnonzero(np.bincount(owners, found, len(messages)) != list_lengths(screen_ids))
    if len(wrong):
        row = int(wrong[0])
        raise BadInputError(
            f"row {row_ids[row].as_py()}: {len(screen_ids[row])} screens do not match its {IMAGE_PLACEHOLDER} "
            "placeholders; derive the round again"
        )
