"""The protocols of an exporter and of what it reads images from, and the record of a written file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenReader


class ExportedFile(NamedTuple):
    """One file of a release."""

    path: str
    """Relative to the release's directory."""
    rows: int
    sha256: str
    bytes: int


class ImageReader(Protocol):
    """Gives the pixels of stored screens."""

    def column(self, screen_ids: Sequence[str]) -> pa.DictionaryArray:
        """The encoded images in the order of the ids; the dictionary has each image once.

        Raises:
            KeyError: a screen is not known.
        """
        ...


class BulkScreenReader(ScreenReader, Protocol):
    """A screen reader that reads many images together faster than one by one."""

    def images(self, screen_ids: Iterable[str]) -> Iterable[tuple[str, bytes]]:
        """Each id once with its encoded image, in the order that is fastest to read, few of them in memory.

        Raises:
            KeyError: a screen is not stored.
        """
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

    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the file in all columns but `images`, a batch for each batch; `screen_ids` says what they show.

        Args:
            rows: in the schema of its table.

        Raises:
            BadInputError: a row has more or fewer placeholders than screens.
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
