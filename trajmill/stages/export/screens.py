"""Writes the screens of a release without their pixels, for trainers that read accessibility trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import pyarrow as pa

from trajmill.schemas.tables.screen import ELEMENT
from trajmill.stages.export.base import ReleaseScreenReader
from trajmill.stages.export.columns import with_features

SCREENS_FILE: Final = "screens.parquet"
"""Path of the file within a release."""

SCREENS_SCHEMA = with_features(
    pa.schema(
        [
            ("screen_id", pa.string()),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("elements", pa.list_(ELEMENT)),
        ]
    )
)

_BATCH_SCREENS = 1024


def screen_batches(screen_ids: Iterable[str], screens: ReleaseScreenReader) -> Iterator[pa.RecordBatch]:
    """Rows of `screens.parquet`, one for each id, in order.

    Raises:
        KeyError: a screen is not stored.
    """
    ids = iter(screen_ids)
    while chunk := list(islice(ids, _BATCH_SCREENS)):
        yield _screen_batch(chunk, screens)


def _screen_batch(ids: list[str], screens: ReleaseScreenReader) -> pa.RecordBatch:
    sizes = [screens.size(screen_id) for screen_id in ids]
    widths = pa.array([size.width for size in sizes], pa.int32())
    heights = pa.array([size.height for size in sizes], pa.int32())
    return pa.record_batch([pa.array(ids, pa.string()), widths, heights, screens.trees(ids)], schema=SCREENS_SCHEMA)
