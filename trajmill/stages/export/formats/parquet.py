"""Writes examples as Parquet files with their images: shards of about 500 MB with few, large row groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.record import arrow_type
from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.columns import BOUNDED_IMAGES, IMAGES, with_features, with_images, without_images
from trajmill.stages.export.formats.lineage import Lineage
from trajmill.stages.export.image_cache import ImageCache
from trajmill.stages.export.write import write_parquet

DATA_FOLDER: Final = "data"
"""The sub-folder of the rows that the trainer reads, in every format."""
GROUP_BYTES: Final = 16_000_000
"""Most distinct images of a row group; an image that repeats within the group is stored once."""
_GROUP_ROWS = 4096
_GROUP_COPIES = 128_000_000
"""Most images of a row group with repetitions; a trainer that reads the group holds all of them."""
_AHEAD = 512
"""Rows whose images are read from the store together."""


class WrittenRows(NamedTuple):
    """Rows that were written, and their files."""

    rows: int
    shards: tuple[str, ...]
    """Paths of the files, relative to the folder."""


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
    values: Callable[[E, int], Mapping[str, Any]]
    """Gives the values of these columns in one row, and takes its number."""
    shard_bytes: int
    bounds: PixelBudget | None
    """The bounds that each image carries; None for images without."""
    rows_folder: str
    """The sub-folder of the shards."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the files."""
        images = pa.field("images", IMAGES if self.bounds is None else BOUNDED_IMAGES)
        return with_features(pa.schema([*self.columns, images, *arrow_type(Lineage)]))

    def write(self, folder: Path, examples: Iterable[E], screens: BulkScreenReader) -> WrittenRows:
        """Write all shards.

        Raises:
            KeyError: a screen is not stored.
            OSError: the disk is full, or the folder cannot be written.
        """
        rows = 0
        names: list[str] = []
        with TemporaryFile(dir=folder) as file:
            cache = ImageCache(file, screens)
            groups = _Groups(self._row_groups(_fetched(examples, cache), cache))
            while groups.more():
                name = f"{self.rows_folder}/train-{len(names):05d}.parquet"
                rows += write_parquet(folder, name, self.schema, groups.shard(self.shard_bytes)).rows
                names.append(name)
        return WrittenRows(rows, tuple(names))

    def _row_groups(self, examples: Iterable[E], cache: ImageCache) -> Iterator[_Group]:
        waiting: list[E] = []
        seen: set[str] = set()
        number = distinct = copies = 0
        for example in examples:
            waiting.append(example)
            for screen in example.lineage.screen_ids:
                length = cache.length(screen)
                copies += length
                distinct += 0 if screen in seen else length
                seen.add(screen)
            if distinct >= GROUP_BYTES or copies >= _GROUP_COPIES or len(waiting) == _GROUP_ROWS:
                rows = len(waiting)
                yield _Group(self._batch(waiting, number, cache), distinct)
                number += rows
                seen, distinct, copies = set(), 0, 0
        if waiting:
            yield _Group(self._batch(waiting, number, cache), distinct)

    def _batch(self, examples: list[E], first: int, cache: ImageCache) -> pa.RecordBatch:
        """Return the rows of examples; empty the list before the images are read, so memory never holds both."""
        rows = pa.RecordBatch.from_pylist(
            [{**self.values(each, first + at), **each.lineage._asdict()} for at, each in enumerate(examples)],
            without_images(self.schema),
        )
        examples.clear()
        return with_images(rows, self.schema, cache, self.bounds)


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
        """Yield the next groups, about `most` bytes together, at least one."""
        size = 0
        while self._next is not None and size < most:
            size += self._next.bytes
            yield self._taken(self._next)
            self._next = next(self._groups, None)

    def _taken(self, group: _Group) -> pa.RecordBatch:
        """Return the rows and drop the reference before the next group is made."""
        self._next = None
        return group.rows


def _fetched(examples: Iterable[E], cache: ImageCache) -> Iterator[E]:
    """Yield the examples; the images of each are cached first."""
    waiting: list[E] = []
    for example in examples:
        waiting.append(example)
        if len(waiting) == _AHEAD:
            cache.add(screen for each in waiting for screen in each.lineage.screen_ids)
            yield from waiting
            waiting = []
    cache.add(screen for each in waiting for screen in each.lineage.screen_ids)
    yield from waiting
