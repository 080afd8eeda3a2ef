"""Reads the log of a Delta table: its version, its files and its columns.

Paths are made from the relative ones in the log: `DeltaTable.file_uris` percent-encodes the folder's own name, and
`to_pyarrow_dataset` brings its own file system and threads.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.checks.log_entries import LOG, first_unreadable_entry, log_entries
from trajmill.warehouse.layout import Warehouse

_FIRST_ENTRY = f"{LOG}/{0:020d}.json"


class Snapshot(NamedTuple):
    """The committed state of a table."""

    log_entry: str
    """Name of the newest entry of the table's log, empty without any commit; an equal name means no change."""
    files: Sequence[str]
    """Names of the files, sorted, relative to the table's folder."""
    columns: Sequence[str]
    mixed: bool
    """Whether columns were added since the first commit, so that some files may lack them."""


class Between(NamedTuple):
    """Bounds of a text column, both included."""

    column: str
    least: str
    greatest: str


class FileBounds(NamedTuple):
    """The files of a table's version with the least and the greatest value of their columns."""

    log: pa.Table

    def names(
        self, rounds: Collection[int] | None, where: Mapping[str, str], between: Between | None = None
    ) -> list[str]:
        """Names of the files that can have rows of some rounds and with some values of columns, sorted."""
        kept = pc.is_valid(self.log["path"])
        if rounds is not None:
            in_rounds = [_can_have(self.log, "round", number, number) for number in rounds]
            kept = pc.and_(kept, reduce(pc.or_, in_rounds, pa.scalar(False)))
        for column, value in where.items():
            kept = pc.and_(kept, _can_have(self.log, column, value, value))
        if between is not None:
            kept = pc.and_(kept, _can_have(self.log, *between))
        return sorted(self.log.filter(kept)["path"].to_pylist())


def delta_table(warehouse: Warehouse, table: str, version: int | None = None) -> DeltaTable | None:
    """The Delta table at a version (None: the newest); None if nothing was committed to it.

    Raises:
        BadInputError: entries of its log are missing or damaged.
    """
    if not log_entries(warehouse, table):
        return None
    where = warehouse.store.uri(warehouse.name(warehouse.table(table)))
    try:
        return DeltaTable(where, version=version)
    except DeltaError as error:
        path = first_unreadable_entry(warehouse, table) or f"{where}/{LOG}"
        reason = str(error).splitlines()[0]
        raise BadInputError(f"{path}: not a log of Delta ({reason}); restore it from a copy") from error


def file_bounds(delta: DeltaTable) -> FileBounds:
    """The files of a table's version with the bounds that its log has."""
    return FileBounds(pa.table(delta.get_add_actions(flatten=True)))


def logged_names(delta: DeltaTable) -> list[str]:
    """File names of a table's version, sorted, relative to the table's folder."""
    return sorted(pa.table(delta.get_add_actions()).column("path").to_pylist())


def committed_files(
    warehouse: Warehouse,
    table: str,
    version: int | None = None,
    rounds: Collection[int] | None = None,
    run_id: str | None = None,
    between: Between | None = None,
) -> list[Path]:
    """Paths of the Parquet files of a table's version, sorted; empty if nothing was committed.

    With `rounds`, `run_id` or `between`, files without such rows are left out by the log's statistics; the others may
    still have other rows.
    """
    delta = delta_table(warehouse, table, version)
    if delta is None:
        return []
    where = {} if run_id is None else {"run_id": run_id}
    narrowed = rounds is not None or between is not None or where
    names = file_bounds(delta).names(rounds, where, between) if narrowed else logged_names(delta)
    return [warehouse.table(table) / name for name in names]


def newest_log_entry(warehouse: Warehouse, table: str) -> str:
    """Name of the newest entry of a table's log, empty without any commit.

    Raises:
        BadInputError: entries of its log are missing or damaged.
    """
    entries = log_entries(warehouse, table)
    return entries[-1].name if entries else ""


def snapshot(warehouse: Warehouse, table: str) -> Snapshot:
    """The committed state of a table."""
    # The entry is read before the table: after a commit in between it is too old, so that the reader looks again.
    entry = newest_log_entry(warehouse, table)
    delta = delta_table(warehouse, table)
    if delta is None:
        return Snapshot("", [], [], False)
    columns = [field.name for field in delta.schema().fields]
    mixed = len(columns) > _first_column_count(warehouse, table)
    return Snapshot(entry, logged_names(delta), columns, mixed)


def table_versions(warehouse: Warehouse) -> dict[str, int]:
    """The newest version of every table to which something was committed."""
    found = {table: delta_table(warehouse, table) for table in TABLES}
    return {table: int(delta.version()) for table, delta in found.items() if delta is not None}


def _first_column_count(warehouse: Warehouse, table: str) -> int:
    # The first entry is parsed here, because opening a second DeltaTable takes longer than everything else.
    actions = map(json.loads, (warehouse.store.get(f"tables/{table}/{_FIRST_ENTRY}") or b"").splitlines())
    [schema] = [action["metaData"]["schemaString"] for action in actions if "metaData" in action]
    return len(json.loads(schema)["fields"])


def _can_have(log: pa.Table, column: str, least: int | str, greatest: int | str) -> pa.ChunkedArray:
    """Whether a file can have rows with a value between two; true for a file without statistics."""
    names = (f"min.{column}", f"max.{column}")
    if not set(names) <= set(log.column_names):
        return pa.chunked_array([pa.repeat(True, log.num_rows)])
    low, high = (log[name] for name in names)
    return pc.fill_null(pc.and_(pc.less_equal(low, greatest), pc.greater_equal(high, least)), True)
