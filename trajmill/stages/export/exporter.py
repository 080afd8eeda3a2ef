"""A format of a release: the rows of one table that it takes, its columns, and the check of a row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from trajmill.schemas.geometry import Size
from trajmill.schemas.spec import Spec
from trajmill.stages.parts import PartGroup

if TYPE_CHECKING:
    import pyarrow as pa

EXPORTERS: Final = PartGroup(
    "trajmill.exporters",
    "release format",
    {"trl": "trajmill.stages.export.sft:SftExporter", "verl": "trajmill.stages.export.rl:RLExporter"},
)


class Exporter(Spec):
    """Writes the rows of one table as one file of a release, and checks rows that were read back."""

    table: ClassVar[Literal["examples", "rl_steps"]]
    """The table whose rows it takes."""
    row_id: ClassVar[str]
    """The column that identifies a row."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the file's configuration in `load_dataset`: sft, rl."""

    @property
    @abstractmethod
    def file(self) -> str:
        """Path of its file within the release."""

    @property
    @abstractmethod
    def row_is(self) -> str:
        """Description of one row, for the dataset card."""

    @property
    @abstractmethod
    def advice(self) -> str:
        """How to use the file, for the dataset card."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Columns of the file."""

    @abstractmethod
    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the file in all columns but `images`, a batch for each batch; `screen_ids` has the images.

        Args:
            rows: in the schema of its table.

        Raises:
            BadInputError: a row has more or fewer placeholders than screens.
        """

    @abstractmethod
    def problems(self, row: Mapping[str, Any], sizes: Mapping[str, Size], guidance: str) -> Iterator[str]:
        """Yield the mistakes of a row of the file; images are not checked here.

        Args:
            row: as it was read from the file.
            sizes: sizes of the stored screens, by id.
            guidance: the hints that the row's trajectory was given; the row must not contain any of their lines.
        """


def exporter_spec(kind: str) -> Exporter:
    """Return a release format with its defaults.

    Raises:
        BadInputError: there is no such format, and the nearest one is named; or it is no exporter.
    """
    return EXPORTERS.default_spec(kind, Exporter)
