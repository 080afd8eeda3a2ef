"""Joins small files of a table into larger ones, in one commit that changes no row and no order of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.columns import file_schema
from trajmill.warehouse.commit import replace_files
from trajmill.warehouse.delta_log import committed_files, newest_table
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.lock import sole_writer
from trajmill.warehouse.shards import DataFile, replace_shard
from trajmill.warehouse.store.connection import damage_as_error

_SMALL_BYTES = 32 << 20
_FULL_BYTES = 128 << 20
_FEWEST = 8
"""Files that are worth a commit; a round leaves about ten in its largest table."""
_JOINED = "-joined-"


class CompactedTable(NamedTuple):
    """A table whose small files were joined."""

    table: str
    files_before: int
    files_after: int


def compact(warehouse: Warehouse) -> list[CompactedTable]:
    """Join small files of all tables; returns the tables that have changed.

    The files that are replaced stay on the disk, since versions that releases name consist of them; `vacuum` deletes
    them when nothing names them any more.

    Raises:
        BadInputError: a committed file or an entry of a table's log is missing or damaged.
        TrajmillError: the disk is full; the table is unchanged.
    """
    done = (compact_table(warehouse, table) for table in TABLES)
    return [table for table in done if table.files_after < table.files_before]


def compact_table(warehouse: Warehouse, table: str, fewest: int = _FEWEST) -> CompactedTable:
    """Join neighbours among the small files of a table, if that saves at least `fewest` files; see `compact`."""
    folder, store = warehouse.table(table), warehouse.store
    if newest_table(warehouse, table) is None:
        return CompactedTable(table, 0, 0)
    with (
        sole_writer(warehouse, table),
        disk_full_as_error(folder),
        store.one_line(f"tables/{table}"),
        damage_as_error(store.uri(f"tables/{table}")),
    ):
        files = committed_files(warehouse, table)
        groups = _neighbours(warehouse, files)
        saved = sum(len(group) - 1 for group in groups)
        if saved < fewest:
            return CompactedTable(table, len(files), len(files))
        joined = [_join(warehouse, table, group) for group in groups]
        replaced = [path for group in groups for path in group]
        for path in replaced:
            # `vacuum` counts the days from now: somebody may still be reading the version before.
            store.touch(warehouse.name(path))
        replace_files(warehouse, table, {path.name: _size(warehouse, path) for path in replaced}, joined)
    return CompactedTable(table, len(files), len(files) - saved)


def _neighbours(warehouse: Warehouse, files: Sequence[Path]) -> list[list[Path]]:
    """Groups of two or more small files that follow each other in the order of their names, which is that of rows."""
    groups: list[list[Path]] = [[]]
    room = _FULL_BYTES
    for path in files:
        size = _size(warehouse, path)
        if size >= _SMALL_BYTES or size > room:
            groups.append([])
            room = _FULL_BYTES
        if size < _SMALL_BYTES:
            groups[-1].append(path)
            room -= size
    return [group for group in groups if len(group) > 1]


def _join(warehouse: Warehouse, table: str, files: Sequence[Path]) -> DataFile:
    """Write the rows of files to a new one, whose name has their place in the order of names."""
    start = files[0].stem.partition(_JOINED)[0]
    name = f"{start}{_JOINED}{content_id([path.name for path in files])}.parquet"
    return replace_shard(warehouse, files[0].with_name(name), table, _rows(warehouse, table, files))


def _rows(warehouse: Warehouse, table: str, files: Sequence[Path]) -> Iterator[pa.Table]:
    schema = file_schema(table)
    system, before = warehouse.store.arrow_files()
    for path in files:
        names = [before + warehouse.name(path)]
        dataset = ds.dataset(names, schema=schema.remove_metadata(), format="parquet", filesystem=system)
        for batch in dataset.to_batches():
            yield pa.Table.from_batches([batch])


def _size(warehouse: Warehouse, path: Path) -> int:
    """Bytes of a committed file. Raises FileNotFoundError if it is missing."""
    size = warehouse.store.size(warehouse.name(path))
    if size is None:
        raise FileNotFoundError(path)
    return size
