"""Joins small files of a table into larger ones, in one commit that changes no row and no order of rows."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.atomic import disk_full_as_error, sync
from trajmill.warehouse.checks.log_entries import LOG, log_entries, make_log_durable
from trajmill.warehouse.checks.unreadable import damage_as_error
from trajmill.warehouse.columns import file_schema
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.lock import sole_writer
from trajmill.warehouse.shards import DataFile, replace_shard

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
    folder = warehouse.table(table)
    if not log_entries(folder):
        return CompactedTable(table, 0, 0)
    with sole_writer(warehouse, table), disk_full_as_error(folder), damage_as_error(folder):
        files = committed_files(warehouse, table)
        groups = _neighbours(files)
        saved = sum(len(group) - 1 for group in groups)
        if saved < fewest:
            return CompactedTable(table, len(files), len(files))
        joined = [_join(table, group) for group in groups]
        _commit(folder, [path for group in groups for path in group], joined)
        # Otherwise every reader goes through the entries that added the small files.
        DeltaTable(str(folder)).create_checkpoint()
        make_log_durable(folder)
    return CompactedTable(table, len(files), len(files) - saved)


def _neighbours(files: Sequence[Path]) -> list[list[Path]]:
    """Groups of two or more small files that follow each other in the order of their names, which is that of rows."""
    groups: list[list[Path]] = [[]]
    room = _FULL_BYTES
    for path in files:
        size = path.stat().st_size
        if size >= _SMALL_BYTES or size > room:
            groups.append([])
            room = _FULL_BYTES
        if size < _SMALL_BYTES:
            groups[-1].append(path)
            room -= size
    return [group for group in groups if len(group) > 1]


def _join(table: str, files: Sequence[Path]) -> DataFile:
    """Write the rows of files to a new one, whose name has their place in the order of names."""
    start = files[0].stem.partition(_JOINED)[0]
    name = f"{start}{_JOINED}{content_id([path.name for path in files])}.parquet"
    return replace_shard(files[0].with_name(name), table, _rows(table, files))


def _rows(table: str, files: Sequence[Path]) -> Iterator[pa.Table]:
    schema = file_schema(table)
    for path in files:
        dataset = ds.dataset([str(path)], schema=schema.remove_metadata(), format="parquet")
        for batch in dataset.to_batches():
            yield pa.Table.from_batches([batch])


def _commit(folder: Path, replaced: Sequence[Path], joined: Sequence[DataFile]) -> None:
    """Add a version to the log; deltalake's own commits can only add files, or replace all of them.

    Nobody else adds one meanwhile: the caller holds the table's lock.
    """
    now = int(time.time() * 1000)
    actions: list[dict[str, object]] = [{"commitInfo": {"timestamp": now, "operation": "OPTIMIZE"}}]
    for path in replaced:
        remove = {"path": path.name, "deletionTimestamp": now, "dataChange": False, "partitionValues": {}}
        actions.append({"remove": remove | {"extendedFileMetadata": True, "size": path.stat().st_size}})
        # `vacuum` counts the days from now: somebody may still be reading the version before.
        os.utime(path)
    for file in joined:
        add = {"path": file.path, "size": file.size, "partitionValues": {}, "modificationTime": now}
        actions.append({"add": add | {"dataChange": False, "stats": file.stats}})
    log = folder / LOG
    unfinished = log / f".joined.{os.getpid()}.tmp"
    unfinished.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
    sync(unfinished)
    try:
        # Unlike a rename, a link never replaces an entry.
        os.link(unfinished, log / f"{len(log_entries(folder)):020d}.json")
    finally:
        unfinished.unlink()
