"""A trainer's format: a function from a canonical row to the trainer's row, and the files beside the rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from pydantic import Field

from trajmill.schemas.dialects.families import Family
from trajmill.schemas.spec import Spec
from trajmill.stages.parts import PartGroup

if TYPE_CHECKING:
    import pyarrow as pa

    from trajmill.stages.export.formats.steps import RLStepExample, StepExample

FORMATS: Final = PartGroup(
    "trajmill.formats",
    "export format",
    {
        "trl": "trajmill.stages.export.formats.trainers:TrlFormat",
        "grpo": "trajmill.stages.export.formats.trainers:GrpoFormat",
        "verl": "trajmill.stages.export.formats.trainers:VerlFormat",
        "verl-sft": "trajmill.stages.export.formats.trainers:VerlSftFormat",
        "llamafactory": "trajmill.stages.export.formats.trainers:LlamaFactoryFormat",
        "swift": "trajmill.stages.export.formats.trainers:SwiftFormat",
        "dpo": "trajmill.stages.export.formats.trainers:DpoFormat",
    },
)


DATA_FOLDER: Final = "data"
"""The sub-folder of the rows that the trainer reads, in every format."""


class TrainerSettings(NamedTuple):
    """Facts about the data that the trainer's settings depend on."""

    family: Family
    """With the pixel budget that the targets are written for."""
    max_length: int
    """A number of tokens that no row exceeds."""
    largest_image: int
    """Pixels of the largest image."""


class TrainerFormat(Spec):
    """Base class: rows are Parquet with their images where `columns` are set, else lines of JSON beside image files."""

    columns: ClassVar[tuple[pa.Field, ...]] = ()
    """The columns that the trainer reads, without the images."""
    rl_columns: ClassVar[tuple[pa.Field, ...]] = ()
    """The same for stored RL steps; empty for a supervised format."""
    images_have_bounds: ClassVar[bool] = False
    """Whether each image carries the pixel bounds of the family, for a trainer that resizes by them."""

    kind: str
    shard_bytes: int = Field(default=500_000_000, gt=0)
    """Approximate size of a file of rows, in bytes."""
    weights_as_rows: bool = True
    """Whether a step has as many rows as it weighs, for a trainer that reads no weights."""

    @abstractmethod
    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        """Return what the trainer reads of row `number`, from 0; raises BadInputError for a kind it cannot use."""

    def unusable(self, example: StepExample) -> str | None:
        """Return why the format leaves out an example of a derived kind, in one word; None if it does not."""
        return "reply_is_no_action" if self.rl_columns and example.target is None else None

    def rl_row(self, example: RLStepExample) -> Mapping[str, Any]:
        raise NotImplementedError(f"{self.kind} has no RL rows")

    def write_settings(self, folder: Path, settings: TrainerSettings) -> None:
        """Write the files beside the rows, e.g. a description of the columns; by default none."""

    @abstractmethod
    def advice(self, settings: TrainerSettings) -> str:
        """Return how to call the trainer, in Markdown, for the card."""


def format_spec(kind: str) -> TrainerFormat:
    """Return a format with its defaults, or raise BadInputError that names the nearest one."""
    return FORMATS.default_spec(kind, TrainerFormat)
