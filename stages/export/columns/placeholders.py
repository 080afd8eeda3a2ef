"""Checks that each row has as many image placeholders as screens."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.stages.export.columns.lists import list_lengths


def check_placeholders(messages: pa.ListArray, screen_ids: pa.ListArray, row_ids: pa.StringArray) -> None:
    """Check that the messages of each row have as many placeholders as the row has screens.

    Raises:
        BadInputError: the numbers differ; the message names the first such row.
    """
    found = pc.count_substring(messages.flatten().field("content"), IMAGE_PLACEHOLDER).to_numpy()
    owners = np.repeat(np.arange(len(messages)), list_lengths(messages))
    wrong = np.flatnonzero(np.bincount(owners, found, len(messages)) != list_lengths(screen_ids))
    if len(wrong):
        row = int(wrong[0])
        raise BadInputError(
            f"row {row_ids[row].as_py()}: {len(screen_ids[row])} screens do not match its {IMAGE_PLACEHOLDER} "
            "placeholders; derive the round again"
        )
