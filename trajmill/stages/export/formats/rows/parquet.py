"""Writes examples as Parquet files with their images: shards of about 500 MB with few, large row groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from trajmill.stages.export.base import BulkScreenReader, ImageReader
from trajmill.stages.export.columns.features import with_features
from trajmill.stages.export.columns.images import image_lists, with_distinct_images
from trajmill.stages.export.formats.rows.columns import IMAGE_COLUMN, LINEAGE, lineage_values
from trajmill.stages.export.formats.rows.lineage import Lineage
from trajmill.stages.export.formats.rows.written import WrittenRows
from trajmill.stages.export.spool import ImageSpool
from trajmill.stages.export.write import write_parquet

GROUP_BYTES: Final = 16_000_000
"""Most distinct images of a row group; an image that repeats within the group is stored once."""
_GROUP_ROWS = 4096
_GROUP_COPIES = 128_000_000
"""Most images of a row group with repetitions; a trainer that reads the group holds all of them."""
_AHEAD = 512
"""Rows whose images are read from the store together."""


class RowWithImages(Protocol):
    """Any example that becomes a row with images."""

    @property
    def lineage(self) -> Lineage:
        """The origin of the row, with the ids of its screens."""
        ...


E = TypeVar("E", bound=RowWithImages)


@dataclass(frozen=True)
class ParquetWriter(Generic[E]):
    """Writes one row for each example: the format's columns, the images, the lineage."""

    columns: tuple[pa.Field, ...]
    """The format's columns, without the images and the lineage."""
    values: Callable[[E], Mapping[str, Any]]
    """Gives the values of these columns in one row."""
    shard_bytes: int
    rows_folder: str
    """The sub-folder of the shards."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the files."""
        return with_features(pa.schema([*self.columns, IMAGE_COLUMN, *LINEAGE]))

    def write(self, folder: Path, examples: Iterable[E], screens: BulkScreenReader) -> WrittenRows:
        """Write all shards.

        Raises:
            KeyError: a screen is not stored.
            OSError: the disk is full, or the folder cannot be written.
        """
        rows = 0
        names: list[str] = []
        with TemporaryFile(dir=folder) as file:
            spool = ImageSpool(file, screens)
            groups = _Groups(_groups(_fetched(examples, spool), spool, self.values, self.schema))
            while groups.more():
                name = f"{self.rows_folder}/train-{len(names):05d}.parquet"
                rows += write_parquet(folder, name, self.schema, groups.shard(self.shard_bytes)).rows
                names.append(name)
        return WrittenRows(rows, tuple(names))


class _Group(NamedTuple):
    """The rows of one row group."""

    rows: pa.RecordBatch
    bytes: int
    """Bytes of its distinct images."""


class _Groups:
    """Divides row groups between shards."""

    def __init__(self, groups: Iterator[_Group]) -> None:
        self._groups = groups
        self._next: _Group | None = next(groups, None)

    def more(self) -> bool:
        """Whether there is another group."""
        return self._next is not None

    def shard(self, most: int) -> Iterator[pa.RecordBatch]:
        """The next groups, about `most` bytes together, at least one group."""
        size = 0
        while self._next is not None and size < most:
            size += self._next.bytes
            yield self._taken(self._next)
            self._next = next(self._groups, None)

    def _taken(self, group: _Group) -> pa.RecordBatch:
        """Else it would be kept while the next one is made."""
        self._next = None
        return group.rows


def _fetched(examples: Iterable[E], spool: ImageSpool) -> Iterator[E]:
    """The unchanged examples; the images of each are in the spool before it is given."""
    waiting: list[E] = []
    for example in examples:
        waiting.append(example)
        if len(waiting) == _AHEAD:
            spool.add(screen for each in waiting for screen in each.lineage.screen_ids)
            yield from waiting
            waiting = []
    spool.add(screen for each in waiting for screen in each.lineage.screen_ids)
    yield from waiting


def _groups(
    examples: Iterable[E],
    spool: ImageSpool,
    values: Callable[[E], Mapping[str, Any]],
    schema: pa.Schema,
) -> Iterator[_Group]:
    waiting: list[E] = []
    seen: set[str] = set()
    distinct = copies = 0
    for example in examples:
        waiting.append(example)
        for screen in example.lineage.screen_ids:
            length = spool.length(screen)
            copies += length
            distinct += 0 if screen in seen else length
            seen.add(screen)
        if distinct >= GROUP_BYTES or copies >= _GROUP_COPIES or len(waiting) == _GROUP_ROWS:
            yield _Group(_batch(waiting, spool, values, schema), distinct)
            seen, distinct, copies = set(), 0, 0
    if waiting:
        yield _Group(_batch(waiting, spool, values, schema), distinct)


def _batch(
    examples: list[E], images: ImageReader, values: Callable[[E], Mapping[str, Any]], schema: pa.Schema
) -> pa.RecordBatch:
    """The rows of examples. The list is emptied before the images are read, so that memory never holds both."""
    plain = pa.schema([field for field in schema if field.name != IMAGE_COLUMN.name])
    rows = pa.RecordBatch.from_pylist(
        [{**values(example), **lineage_values(example.lineage)} for example in examples], plain
    )
    shown = pa.array([example.lineage.screen_ids for example in examples], pa.list_(pa.string()))
    examples.clear()
    columns = [
        image_lists(shown, images) if field.name == IMAGE_COLUMN.name else rows.column(field.name) for field in schema
    ]
    return pa.record_batch(columns, with_distinct_images(schema))
