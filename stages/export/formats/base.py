"""The protocol of a trainer's format, and the records that it takes and returns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from trajmill.schemas.dialects.families import Family
from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.rows.step_example import StepExample

DATA_FOLDER = "data"
"""The sub-folder of the rows, in every format."""


class WrittenRows(NamedTuple):
    """The rows that a format wrote."""

    rows: int
    shards: tuple[str, ...]
    """Paths of the files with rows, relative to the folder."""


class TrainerSettings(NamedTuple):
    """Facts about the data that the trainer's settings depend on."""

    family: Family
    max_length: int
    """A number of tokens that no row exceeds."""


class TrainerFormat(Protocol):
    """Writes examples as one trainer reads them."""

    @property
    def kind(self) -> str:
        """Its name on the command line."""
        ...

    @property
    def weights_as_rows(self) -> bool:
        """Whether an example is written as often as it weighs, because the trainer reads no weights."""
        ...

    def write(self, folder: Path, examples: Iterable[StepExample], screens: BulkScreenReader) -> WrittenRows:
        """Write all rows, and their images, into an empty folder.

        Raises:
            KeyError: a screen is not stored.
            OSError: the disk is full, or the folder cannot be written.
        """
        ...

    def finish(self, folder: Path, settings: TrainerSettings) -> None:
        """Write the other files, e.g. a description of the columns or a reward function."""
        ...

    def advice(self, settings: TrainerSettings) -> str:
        """How to call the trainer, for the card, in Markdown."""
        ...
