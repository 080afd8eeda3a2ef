"""Writes the files of a release, each under a temporary name that is replaced when the file is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.stages.export.base import ExportedFile, ReleaseScreenReader
from trajmill.stages.export.columns import with_distinct_images, with_images
from trajmill.stages.export.exporter import Exporter
from trajmill.stages.export.image_cache import ImageCache
from trajmill.stages.export.screens import SCREENS_FILE, SCREENS_SCHEMA, screen_batches

_IMAGE_BYTES = "images.list.element.bytes"
_NOT_SMALLER = (_IMAGE_BYTES, "_id", "_ids.list.element")
"""How leaves end that compression hardly makes smaller; it costs most of the time of writing a small column."""
_DICTIONARY_BYTES = 64 << 20

RowsWritten = Callable[[int], None]
"""Called with the number of rows that were just written."""


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
    distinct screens.
    The images go through a temporary file in the same folder, which is deleted at the end.

    Args:
        directory: the release's folder; it is made if missing, and files of the same names are replaced.
        exporters: the formats to write.
        tables: the rows of each table that an exporter takes, in the schema of the table (its `to_batches()`). If
            several exporters take a table, it must be possible to iterate over its rows several times.
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
            rows = cache.groups(exporter.batches(cache.ahead_of(tables[exporter.table])))
            groups = (with_images(group, exporter.schema, cache) for group in rows)
            files.append(write_parquet(directory, exporter.file, exporter.schema, groups, written))
        trees = screen_batches(cache.screen_ids(), screens)
        files.append(write_parquet(directory, SCREENS_FILE, SCREENS_SCHEMA, trees))
    return files


def write_parquet(
    directory: Path,
    name: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    written: RowsWritten = lambda rows: None,
) -> ExportedFile:
    """Write one file with a row group for each batch, whose columns of images are those of `image_lists`.

    Encoded images and hashes do not get smaller by compression, so they are stored uncompressed. A dictionary stores an
    image that repeats within a row group only once.
    """
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    rows = 0
    try:
        with _parquet_writer(unfinished, schema) as writer:
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


def _parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    leaves = list(_leaves(schema))
    # Without Arrow's own schema, images are read as bytes, not as the dictionary that they were written from.
    writer = pq.ParquetWriter(
        path,
        with_distinct_images(schema),
        compression={leaf: "none" if leaf.endswith(_NOT_SMALLER) else "zstd" for leaf in leaves},
        write_statistics=[leaf for leaf in leaves if leaf != _IMAGE_BYTES],
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        store_schema=False,
    )
    writer.add_key_value_metadata(schema.metadata)
    return writer


def _leaves(schema: pa.Schema) -> Iterator[str]:
    """The Parquet paths of all leaf columns."""
    for field in schema:
        yield from _leaves_below(field.name, field.type)


def _leaves_below(path: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_list(kind):
        yield from _leaves_below(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves_below(f"{path}.{field.name}", field.type)
    else:
        yield path
