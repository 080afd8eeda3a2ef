"""Writes the files of a release, each under a temporary name until it is complete."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.schemas.tables.screen import ELEMENT
from trajmill.stages.export.exporter import Exporter
from trajmill.stages.export.images import (
    GroupLimits,
    ImageCache,
    ReleaseScreenReader,
    row_groups,
    with_distinct_images,
    with_features,
    with_images,
)

SCREENS_FILE: Final = "screens.parquet"
"""Path of the file with the accessibility trees, within a release."""
SCREENS_SCHEMA = with_features(
    pa.schema(
        [
            ("screen_id", pa.string()),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("elements", pa.list_(ELEMENT)),
        ]
    )
)
GROUP: Final = GroupLimits(rows=1024, distinct=4_000_000, repeated=4_000_000)
"""Limits of a row group of a release."""
_SCREENS_AT_ONCE = 1024
_IMAGE_BYTES = "images.list.element.bytes"
_NOT_SMALLER = (_IMAGE_BYTES, "_id", "_ids.list.element")
"""Suffixes of leaves that compression hardly makes smaller; it costs most of the time of writing a small column."""
_DICTIONARY_BYTES = 64 << 20

RowsWritten = Callable[[int], None]
"""Called with the number of rows that were just written."""


class ExportedFile(NamedTuple):
    path: str
    """Relative to the release's directory."""
    rows: int
    sha256: str
    bytes: int


def export_release(
    directory: Path,
    exporters: Sequence[Exporter],
    tables: Mapping[str, Iterable[pa.RecordBatch]],
    screens: ReleaseScreenReader,
    written: RowsWritten = lambda rows: None,
    shown: Iterable[str] = (),
) -> list[ExportedFile]:
    """Write the file of each exporter, and `screens.parquet`; the same input gives the same bytes.

    Memory holds some thousands of rows without pixels, the distinct images of one row group, and the ids of the
    distinct screens. The images go through a temporary file in the same folder.

    Args:
        directory: the release's folder; it is made if missing, and files of the same names are replaced.
        exporters: the formats to write.
        tables: the rows of each table that an exporter takes, in the schema of the table (its `to_batches()`). If
            several exporters take a table, its rows are iterated over several times.
        screens: all screens that the rows show.
        written: called with the number of rows of each row group that is written.
        shown: the screens of all rows, if known: the store is then read once instead of once per some thousand rows.

    Raises:
        BadInputError: a row has more or fewer placeholders than screens.
        KeyError: a screen is not stored.
        OSError: the disk is full, or the folder cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    with TemporaryFile(dir=directory) as file:
        cache = ImageCache(file, screens)
        cache.add(shown)
        for exporter in exporters:
            groups = row_groups(exporter.batches(_sliced(tables[exporter.table])), cache, GROUP)
            filled = (with_images(group.rows, exporter.schema, cache) for group in groups)
            files.append(write_parquet(directory, exporter.file, exporter.schema, filled, written))
        files.append(
            write_parquet(directory, SCREENS_FILE, SCREENS_SCHEMA, screen_batches(cache.screen_ids(), screens))
        )
    return files


def _sliced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from (batch.slice(start, GROUP.rows) for start in range(0, batch.num_rows, GROUP.rows))
        # Release it before the next one is read.
        del batch


def screen_batches(screen_ids: Iterable[str], screens: ReleaseScreenReader) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `screens.parquet`, one for each id, in order. Raises KeyError if a screen is not stored."""
    remaining = iter(screen_ids)
    while ids := list(islice(remaining, _SCREENS_AT_ONCE)):
        sizes = [screens.size(screen_id) for screen_id in ids]
        widths = pa.array([size.width for size in sizes], pa.int32())
        heights = pa.array([size.height for size in sizes], pa.int32())
        columns = [pa.array(ids, pa.string()), widths, heights, screens.trees(ids)]
        yield pa.record_batch(columns, schema=SCREENS_SCHEMA)


def write_parquet(
    directory: Path,
    name: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    written: RowsWritten = lambda rows: None,
) -> ExportedFile:
    """Write one file with a row group for each batch, whose columns of images are those of `with_images`.

    Compression does not shrink encoded images and hashes, so they are stored uncompressed. A dictionary stores an image
    that repeats within a row group only once.
    """
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    rows = 0
    try:
        # Without Arrow's own schema, images are read as bytes, not as the dictionary that they were written from.
        with pq.ParquetWriter(
            unfinished,
            with_distinct_images(schema),
            compression={leaf: "none" if leaf.endswith(_NOT_SMALLER) else "zstd" for leaf in leaves},
            write_statistics=[leaf for leaf in leaves if leaf != _IMAGE_BYTES],
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            store_schema=False,
        ) as writer:
            writer.add_key_value_metadata(schema.metadata)
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
                written(batch.num_rows)
                # Release it before the next one is made.
                del batch
        with unfinished.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = unfinished.stat().st_size
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return ExportedFile(name, rows, digest, size)


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the Parquet paths of the leaf columns below a column."""
    if pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    else:
        yield path
