"""Writes shards: Parquet files at deterministic paths in the table's folder, invisible until they are committed."""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from trajmill.schemas.record import Row
from trajmill.schemas.tables.registry import arrow_schema, rows_to_arrow
from trajmill.warehouse.atomic import replacing
from trajmill.warehouse.delta_log import delta_table, logged_names
from trajmill.warehouse.layout import ONLY_SHARD, StageRun, Warehouse
from trajmill.warehouse.releases import file_hash
from trajmill.warehouse.store.connection import damage_as_error

WRITTEN_AT = pa.field("written_at", pa.timestamp("us", tz="UTC"))
"""When the row's file was written. Records have no such field: no time can decide an id, a seed or a policy."""
_HUGGING_FACE = {b"huggingface": json.dumps({"info": {"features": {"image": {"_type": "Image"}}}}).encode()}
CHECKED: dict[str, bool] = {"page_checksum_verification": True}
"""For readers of Parquet: a page that has changed since it was written is an error."""
CHECKED_FORMAT = ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(**CHECKED))
_ROWS_PER_GROUP = 16_384
_SCREENS_PER_GROUP = 64
_BYTES_OF_SCREENS = 4 << 20
"""A reader of one image reads its whole row group: those of screens are no larger, unless a single screen is."""
_LONGEST_STATISTIC = 64
_SEAL = b"footer's crc32: "


class DataFile(NamedTuple):
    """A shard on disk, with what a commit needs."""

    path: str
    rows: int
    """0 for a shard without rows, for which no file exists."""
    size: int
    stats: str
    """Row count, minima, maxima and null counts in Delta's JSON, from the Parquet footer."""
    sha256: str = ""
    """Hash of the file; empty in a marker of an earlier trajmill."""


def stored_schema(table: str) -> pa.Schema:
    return arrow_schema(table).append(WRITTEN_AT)


def file_schema(table: str) -> pa.Schema:
    """The schema that the table's files are written with; for `screens` it carries the Hugging Face features."""
    schema = stored_schema(table)
    if table != "screens":
        return schema
    # `datasets` ignores the features of a column whose nullability differs from its own.
    image = schema.get_field_index("image")
    return schema.set(image, schema.field(image).with_nullable(True)).with_metadata(_HUGGING_FACE)


def rows_per_group(table: str) -> int:
    return _SCREENS_PER_GROUP if table == "screens" else _ROWS_PER_GROUP


def write_tables(
    warehouse: Warehouse, at: StageRun, rows: Mapping[str, Sequence[Row]], shard: str = ONLY_SHARD
) -> dict[str, list[DataFile]]:
    """Write the rows of each table that has any as one shard. Raises TrajmillError if the disk is full."""
    return {
        table: [write_shard(warehouse, table, at, rows_to_arrow(table, records), shard)]
        for table, records in rows.items()
        if records
    }


def write_shard(
    warehouse: Warehouse, table: str, at: StageRun, data: pa.Table | Iterable[pa.RecordBatch], shard: str = ONLY_SHARD
) -> DataFile:
    """Write rows as one shard of a table; readers see them only after `commit`.

    Writing the same shard again replaces it, unless it is committed: a committed file never changes and is returned.
    `data` has the table's columns in any order; batches are written one by one, in constant memory. Rows without a
    `written_at` are given the present time. Raises TrajmillError if the disk is full, and KeyError without a column.
    """
    path = warehouse.table(table) / at.shard_name(shard)
    if warehouse.store.is_local and path.exists():
        delta = delta_table(warehouse, table)
        if delta is not None and path.name in logged_names(delta):
            return describe(path)
    now = pa.scalar(datetime.now(UTC), WRITTEN_AT.type)
    tables = [data] if isinstance(data, pa.Table) else (pa.Table.from_batches([batch]) for batch in data)
    timed = (
        rows if WRITTEN_AT.name in rows.column_names else rows.append_column(WRITTEN_AT, pa.repeat(now, rows.num_rows))
        for rows in tables
    )
    return replace_shard(warehouse, path, table, timed)


def replace_shard(warehouse: Warehouse, path: Path, table: str, data: Iterable[pa.Table]) -> DataFile:
    """Write rows with all columns of a table to a path; without rows, remove what is there.

    In a bucket a hash of its bytes is added to the file's name, so that a worker that stood still and comes back
    replaces nothing that others have written and committed since. Raises TrajmillError if the disk is full.
    """
    schema = file_schema(table)
    groups = _row_groups(data, schema, rows_per_group(table), _BYTES_OF_SCREENS if table == "screens" else sys.maxsize)
    first = next(groups, None)
    if first is None:
        path.unlink(missing_ok=True)
        return DataFile(path.name, 0, 0, "")
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    small = [leaf for leaf in leaves if leaf != "image.bytes"]
    # Statistics of images would put two whole images per row group into the footer; PNG does not compress.
    compression = {leaf: "NONE" if leaf == "image.bytes" else "ZSTD" for leaf in leaves}
    options = {"use_dictionary": small, "write_statistics": small}
    with replacing(path) as temporary:
        with pq.ParquetWriter(
            temporary, schema, compression=compression, **options, write_page_checksum=True
        ) as writer:
            writer.write_table(first)
            for group in groups:
                writer.write_table(group)
        _seal(temporary)
    if not warehouse.store.is_local:
        path = path.rename(path.with_stem(f"{path.stem}.{file_hash(path)[:12]}"))
        warehouse.store.publish(warehouse.name(path))
    return describe(path)


def read_file(warehouse: Warehouse, name: str, *columns: str) -> pa.Table:
    """Read columns of a Parquet file of the store. Raises BadInputError if it is missing or damaged."""
    system, before = warehouse.store.arrow_files()
    with damage_as_error(warehouse.store.uri(name)), warehouse.store.one_line(name):
        check_footers(warehouse, [name])
        return pq.read_table(before + name, columns=list(columns), filesystem=system, partitioning=None, **CHECKED)


def open_file(warehouse: Warehouse, path: Path) -> pq.ParquetFile:
    """Open a file of a table on this machine. Raises pyarrow.ArrowInvalid or OSError if it is missing or damaged."""
    check_footers(warehouse, [warehouse.name(path)])
    return pq.ParquetFile(path, **CHECKED)


def describe(path: Path) -> DataFile:
    footer = pq.read_metadata(path)
    stats = json.dumps(_statistics(footer))
    return DataFile(path.name, footer.num_rows, path.stat().st_size, stats, file_hash(path))


def check_footers(warehouse: Warehouse, names: Iterable[str]) -> None:
    """Raise pyarrow.ArrowInvalid if the footer of a file in a folder has changed; a bucket has checksums of its own.

    The checksums of Parquet are those of pages. A footer's stands before it, where no reader of Parquet looks; files of
    an earlier trajmill have none.
    """
    for path in (warehouse.root / name for name in names) if warehouse.store.is_local else ():
        if path.exists() and not _has_whole_footer(path, path.stat().st_mtime_ns):
            raise pa.ArrowInvalid(f"{path.name}: its footer has changed")


@lru_cache(maxsize=4096)
def _has_whole_footer(path: Path, modified: int) -> bool:
    try:
        with path.open("rb") as file:
            footer = _footer(file)
            file.seek(-len(footer) - len(_SEAL) - 4, os.SEEK_END)
            seal, crc = file.read(len(_SEAL)), file.read(4)
    except OSError:
        return False
    return seal != _SEAL or int.from_bytes(crc) == zlib.crc32(footer)


def _seal(path: Path) -> None:
    with path.open("r+b") as file:
        footer = _footer(file)
        file.seek(-len(footer), os.SEEK_END)
        file.write(_SEAL + zlib.crc32(footer).to_bytes(4) + footer)


def _footer(file: BinaryIO) -> bytes:
    """The footer with its length and what marks the end of the file. Raises OSError if the file is too short."""
    file.seek(-8, os.SEEK_END)
    file.seek(-8 - int.from_bytes(file.read(4), "little"), os.SEEK_END)
    return file.read()


def _row_groups(tables: Iterable[pa.Table], schema: pa.Schema, most_rows: int, most_bytes: int) -> Iterator[pa.Table]:
    waiting, count, size = list[pa.Table](), 0, 0
    for table in tables:
        waiting.append(table.select(schema.names).cast(schema))
        count, size = count + waiting[-1].num_rows, size + waiting[-1].nbytes
        if count >= most_rows or size >= most_bytes:
            joined, rows = pa.concat_tables(waiting), max(1, min(most_rows, most_bytes * count // max(size, 1)))
            full = count - count % rows
            yield from (joined.slice(start, rows) for start in range(0, full, rows))
            left = joined.slice(full)
            waiting, count, size = [left], left.num_rows, left.nbytes
    if count:
        yield pa.concat_tables(waiting)


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


def _statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(footer.num_columns):
        column = footer.schema.column(index)
        if column.path != column.name:
            continue
        parts = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if any(part is None or not part.has_null_count for part in parts):
            continue
        nulls[column.name] = sum(part.null_count for part in parts)
        limits = [limit for part in parts if part.has_min_max for limit in (part.min, part.max)]
        if limits and len(limits) == 2 * len(parts) and all(map(_fits, limits)):
            low[column.name], high[column.name] = min(limits), max(limits)
    return {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _fits(limit: object) -> bool:
    # Long texts make the log large, and Delta keeps no bounds of booleans.
    return len(limit) <= _LONGEST_STATISTIC if isinstance(limit, str) else type(limit) in (int, float)
