"""The screens of a release without their pixels, for trainers that read accessibility trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import pyarrow as pa

from schemas.observation import ScreenReader
from schemas.screen import ELEMENT
from stages.export.features import with_features

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


def screen_batches(screen_ids: Iterable[str], screens: ScreenReader) -> Iterator[pa.RecordBatch]:
    """Rows of `screens.parquet`, one per id, in order.

    Raises:
        KeyError: a screen is not stored.
    """
    ids = iter(screen_ids)
    while chunk := list(islice(ids, _BATCH_SCREENS)):
        yield _screen_batch(chunk, screens)


def _screen_batch(ids: list[str], screens: ScreenReader) -> pa.RecordBatch:
    sizes = [screens.size(screen_id) for screen_id in ids]
    trees = [screens.elements(screen_id) for screen_id in ids]
    elements = pa.array([[element._asdict() for element in tree] for tree in trees], pa.list_(ELEMENT))
    widths = pa.array([size.width for size in sizes], pa.int32())
    heights = pa.array([size.height for size in sizes], pa.int32())
    return pa.record_batch([pa.array(ids, pa.string()), widths, heights, elements], schema=SCREENS_SCHEMA)
