"""The protocol of an exporter, the record of a written file, and batches cut to row groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from trajmill.schemas.geometry import Size
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


class Exporter(Protocol):
    """Writes the rows of one table in one format, and says what is wrong with a row that was read again."""

    @property
    def name(self) -> str:
        """What the file is called when a data set is loaded by name: sft, rl."""
        ...

    @property
    def file(self) -> str:
        """Path of its file within the release."""
        ...

    @property
    def table(self) -> str:
        """The table whose rows it takes: examples, rl_steps."""
        ...

    @property
    def row_id(self) -> str:
        """The column that identifies a row."""
        ...

    @property
    def row_is(self) -> str:
        """What one row is, for the dataset card."""
        ...

    @property
    def advice(self) -> str:
        """What a trainer must know who reads the file, for the dataset card."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Columns of the file."""
        ...

    def batches(self, rows: Iterable[pa.RecordBatch], screens: ImageReader) -> Iterator[pa.RecordBatch]:
        """The rows of the file in batches of one row group.

        Args:
            rows: in the schema of its table.
            screens: where the images are.

        Raises:
            BadInputError: a row has another number of placeholders than of screens.
            KeyError: a screen is not stored.
        """
        ...

    def problems(self, row: Mapping[str, Any], sizes: Mapping[str, Size], guidance: str) -> Iterator[str]:
        """What is wrong with a row of the file, apart from its images.

        Args:
            row: as it was read again.
            sizes: of the stored screens, by id.
            guidance: the hints that were given to the row's trajectory, none of whose lines may stand in it.
        """
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
