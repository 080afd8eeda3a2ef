"""The protocol of a trainer's format, and the records that it takes and returns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from trajmill.schemas.dialects.families import Family
from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.rows.rl_step_example import RLStepExample
from trajmill.stages.export.formats.rows.step_example import StepExample
from trajmill.stages.export.formats.rows.written import WrittenRows


class TrainerSettings(NamedTuple):
    """Facts about the data that the trainer's settings depend on."""

    family: Family
    max_length: int
    """A number of tokens that no row exceeds."""
    largest_image: int
    """Pixels of the largest image."""


class RLStepWriter(Protocol):
    """Writes RL steps for trainers that learn from stored replies."""

    def write(self, folder: Path, examples: Iterable[RLStepExample], screens: BulkScreenReader) -> WrittenRows:
        """Write all rows with their images.

        Raises:
            KeyError: a screen is not stored.
            OSError: the disk is full, or the folder cannot be written.
        """
        ...


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

    @property
    def rl_steps(self) -> RLStepWriter | None:
        """Writes the RL steps of the release; None for a supervised format."""
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
