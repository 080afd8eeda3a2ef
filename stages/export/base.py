"""What all exporters share: the batch size, the record of a written file, and batches cut to row groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa

from trajmill.schemas.observation import ScreenReader

BATCH_ROWS = 64
"""Rows of one record batch and of one Parquet row group: with images of 20 kB to 1 MB a group is 1 to 64 MB."""


class ExportedFile(NamedTuple):
    """One file of a release."""

    path: str
    """Relative to the release's directory."""
    rows: int
    sha256: str
    bytes: int


class ImageReader(Protocol):
    """Gives the pixels of stored screens."""

    def image(self, screen_id: str) -> bytes:
        """The encoded image. Raises KeyError for an unknown id."""
        ...


class BulkScreenReader(ScreenReader, Protocol):
    """A screen reader that gives many images at less than the price of each alone."""

    def images(self, screen_ids: Iterable[str]) -> Mapping[str, bytes]:
        """The encoded images by id. Raises KeyError for an unknown id."""
        ...


def row_groups(batches: Iterable[pa.RecordBatch], rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches of exactly `rows` (the last one may be smaller)."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        pending.append(batch)
        count += batch.num_rows
        if count < rows:
            continue
        whole = pending[0] if len(pending) == 1 else pa.concat_batches(pending)
        for start in range(0, count - count % rows, rows):
            yield whole.slice(start, rows)
        pending, count = [whole.slice(count - count % rows)], count % rows
    if count:
        yield pa.concat_batches(pending)
