"""Writes the files of a release, each under a temporary name that is replaced when the file is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.stages.export.base import ExportedFile, Exporter, ReleaseScreenReader
from trajmill.stages.export.columns.images import with_distinct_images
from trajmill.stages.export.screens import SCREENS_FILE, SCREENS_SCHEMA, screen_batches
from trajmill.stages.export.spool import ImageSpool

_IMAGE_BYTES = "images.list.element.bytes"
_DICTIONARY_BYTES = 64 << 20

RowsWritten = Callable[[int], None]
"""Is told of so many more rows that are written."""


def export_release(
    directory: Path,
    exporters: Sequence[Exporter],
    tables: Mapping[str, Iterable[pa.RecordBatch]],
    screens: ReleaseScreenReader,
    written: RowsWritten = lambda rows: None,
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
        written: is told the rows of each row group of an exporter, when they are written.

    Raises:
        BadInputError: a row has more or fewer placeholders than screens.
        KeyError: a screen is not stored.
        OSError: the disk is full, or the folder cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    with TemporaryFile(dir=directory) as file:
        spool = ImageSpool(file, screens)
        for exporter in exporters:
            rows = exporter.batches(spool.groups(tables[exporter.table]), spool)
            files.append(write_parquet(directory, exporter.file, exporter.schema, rows, written))
        trees = screen_batches(spool.screen_ids(), screens)
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

    Encoded images do not get smaller by compression, so they are stored uncompressed. A dictionary stores an image that
    repeats within a row group only once.
    """
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        rows = _write_batches(unfinished, schema, batches, written)
        with unfinished.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = unfinished.stat().st_size
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return ExportedFile(name, rows, digest, size)


def _write_batches(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], written: RowsWritten) -> int:
    rows = 0
    # Without Arrow's own schema, images are read as bytes, not as the dictionary that they were written from.
    with pq.ParquetWriter(
        path,
        with_distinct_images(schema),
        compression={column: "none" if column == _IMAGE_BYTES else "zstd" for column in _leaves(schema)},
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        store_schema=False,
    ) as writer:
        writer.add_key_value_metadata(schema.metadata)
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
            written(batch.num_rows)
    return rows


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
