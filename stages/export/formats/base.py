"""The protocol of a trainer's format, and what was written in one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from trajmill.schemas.dialects.families import Family
from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.rows.step_example import StepExample

DATA_FOLDER = "data"
"""Where the rows lie in the folder of every format."""


class WrittenRows(NamedTuple):
    """What a format made of the examples."""

    rows: int
    shards: tuple[str, ...]
    """Paths of the files with rows, relative to the folder."""


class TrainerSettings(NamedTuple):
    """What a trainer must be told about the data, for texts that a format writes beside it."""

    family: Family
    max_length: int
    """No row has more tokens."""


class TrainerFormat(Protocol):
    """Writes examples as one trainer reads them."""

    @property
    def kind(self) -> str:
        """As it is named on the command line."""
        ...

    @property
    def weights_as_rows(self) -> bool:
        """Whether loss weights are numbers of rows, because the trainer reads none."""
        ...

    def write(self, folder: Path, examples: Iterable[StepExample], screens: BulkScreenReader) -> WrittenRows:
        """Write all rows, and their images, into an empty folder.

        Raises:
            KeyError: a screen is not stored.
            OSError: the disk is full, or the folder cannot be written.
        """
        ...

    def finish(self, folder: Path, settings: TrainerSettings) -> None:
        """Write what stands beside the rows: a description of the columns, a reward function."""
        ...

    def advice(self, settings: TrainerSettings) -> str:
        """How the trainer is to be called, for the card, in Markdown."""
        ...
