"""The protocol of an exporter, the record of a written file, and batches of the size of row groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenReader

BATCH_ROWS = 64
"""Rows of a record batch and of a Parquet row group; with images of 20 kB to 1 MB, a group has 1 to 64 MB."""


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
    """A screen reader that reads many images together faster than one by one."""

    def images(self, screen_ids: Iterable[str]) -> Mapping[str, bytes]:
        """The encoded images by id. Raises KeyError for an unknown id."""
        ...


class ReleaseScreenReader(BulkScreenReader, Protocol):
    """A screen reader that gives trees as a column, without an object for each element."""

    def trees(self, screen_ids: Sequence[str]) -> pa.ListArray:
        """The accessibility trees in the order of the ids, lists of `ELEMENT`. Raises KeyError for an unknown id."""
        ...


class Exporter(Protocol):
    """Writes the rows of one table in one format, and checks rows that were read back."""

    @property
    def name(self) -> str:
        """Name of the file's configuration in `load_dataset`: sft, rl."""
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
        """Describes one row, for the dataset card."""
        ...

    @property
    def advice(self) -> str:
        """What users of the file must know, for the dataset card."""
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
            BadInputError: a row has more or fewer placeholders than screens.
            KeyError: a screen is not stored.
        """
        ...

    def problems(self, row: Mapping[str, Any], sizes: Mapping[str, Size], guidance: str) -> Iterator[str]:
        """The mistakes of a row of the file; images are not checked here.

        Args:
            row: as it was read from the file.
            sizes: sizes of the stored screens, by id.
            guidance: the hints that the row's trajectory was given; the row must not contain any of their lines.
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
