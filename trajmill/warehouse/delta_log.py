"""Reads the log of a Delta table: its version, its files and its columns.

Paths are made from the relative ones in the log: `DeltaTable.file_uris` percent-encodes the folder's own name, and
`to_pyarrow_dataset` brings its own file system and threads.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.checks.log_entries import LOG, LogEntry, first_unreadable_entry, log_entries
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.store.connection import DELTA_RETRIES, CredentialsKey, ask_again, credentials_key

_FIRST_ENTRY = f"{LOG}/{0:020d}.json"
_MOST_BEHIND = 10
"""New entries that are read one by one; there is a checkpoint in more of them."""


class Between(NamedTuple):
    """Bounds of a text column, both included."""

    column: str
    least: str
    greatest: str


class Snapshot(NamedTuple):
    """The committed state of a table."""

    log_entry: str
    """Tells the newest entry of the table's log, see `newest_log_entry`."""
    files: Sequence[str]
    """Names of the files, sorted, relative to the table's folder."""
    columns: Sequence[str]
    mixed: bool
    """Whether columns were added since the first commit, so that some files may lack them."""


class KeptTable:
    """A Delta table at its newest version, as far as this process knows.

    Opening a table is some requests to a bucket for each entry since the last checkpoint, so that only what was added
    to its log since is read.
    """

    def __init__(self) -> None:
        """Nothing is kept."""
        self._entries: Sequence[LogEntry] = ()
        self._table: DeltaTable | None = None
        self._lock = threading.Lock()

    def at(self, entries: Sequence[LogEntry], opened: Callable[[], DeltaTable]) -> DeltaTable:
        """The table whose log has such entries, of which none is damaged; callers share the object.

        Args:
            entries: the entries of the log, oldest first.
            opened: opens the table anew, which is done where what is kept is of another log or long ago.
        """
        with self._lock:
            if self._table is None or not self._follows(self._table, entries):
                self._table = opened()
            self._entries = entries
            return self._table

    def keep(self, table: DeltaTable, entries: Sequence[LogEntry]) -> None:
        """Keep a table that this process has committed to; its log has such entries."""
        with self._lock:
            self._entries, self._table = entries, table

    def _follows(self, table: DeltaTable, entries: Sequence[LogEntry]) -> bool:
        """Read the entries that are new; False if that does not give the table with such entries."""
        known = len(self._entries)
        if entries[:known] != self._entries or len(entries) > known + _MOST_BEHIND:
            return False
        if len(entries) > known:
            try:
                table.update_incremental()
            except (DeltaError, OSError):
                # Whoever opens it says what is wrong.
                return False
        return int(table.version()) >= len(entries) - 1


def kept_table(warehouse: Warehouse, table: str) -> KeptTable:
    """What this process keeps of a table; with other credentials or another endpoint it is another table."""
    return _kept_table(warehouse, table, credentials_key())


@lru_cache(maxsize=4 * len(TABLES))
def _kept_table(warehouse: Warehouse, table: str, credentials: CredentialsKey) -> KeptTable:
    return KeptTable()


def delta_table(warehouse: Warehouse, table: str, version: int | None = None) -> DeltaTable | None:
    """The Delta table at a version (None: the newest); None if nothing was committed to it.

    Raises:
        BadInputError: entries of its log are missing or damaged.
        StoreError: the store does not answer.
    """
    if not log_entries(warehouse, table):
        return None
    return ask_again(warehouse.store, lambda: _opened(warehouse, table, version))


def newest_table(warehouse: Warehouse, table: str) -> DeltaTable | None:
    """The Delta table at its newest version; the next caller gets the same object, which goes on to newer versions.

    Raises:
        BadInputError: entries of its log are missing or damaged.
        StoreError: the store does not answer.
    """
    entries = log_entries(warehouse, table)
    if not entries:
        return None
    kept = kept_table(warehouse, table)
    return kept.at(entries, lambda: ask_again(warehouse.store, lambda: _opened(warehouse, table, None)))


def _opened(warehouse: Warehouse, table: str, version: int | None) -> DeltaTable:
    where = warehouse.store.uri(f"tables/{table}")
    with warehouse.store.one_line(f"tables/{table}"):
        try:
            return DeltaTable(where, version=version, storage_options=DELTA_RETRIES)
        except DeltaError as error:
            path = first_unreadable_entry(warehouse, table) or f"{where}/{LOG}"
            reason = str(error).splitlines()[0]
            raise BadInputError(f"{path}: not a log of Delta ({reason}); restore it from a copy") from error


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
    delta = newest_table(warehouse, table) if version is None else delta_table(warehouse, table, version)
    if delta is None:
        return []
    conditions: list[tuple[str, str, Any]] = []
    if rounds is not None:
        conditions.append(("round", "in", list(rounds)))
    if run_id is not None:
        conditions.append(("run_id", "=", run_id))
    if between is not None:
        conditions += [(between.column, ">=", between.least), (between.column, "<=", between.greatest)]
    if not conditions:
        names = logged_names(delta)
    elif rounds is not None and not rounds:
        names = []
    else:
        uris = delta.file_uris(file_pruning_predicate=conditions)
        names = sorted(unquote(uri.rpartition("/")[2]) for uri in uris)
    return [warehouse.table(table) / name for name in names]


def newest_log_entry(warehouse: Warehouse, table: str) -> str:
    """Tells the newest entry of a table's log; empty without any commit, and equal as long as nothing changes.

    Its size and time belong to it: a warehouse that was made anew at the same address has entries of the same names.

    Raises:
        BadInputError: entries of its log are missing or damaged.
    """
    entries = log_entries(warehouse, table)
    return " ".join(map(str, entries[-1])) if entries else ""


def snapshot(warehouse: Warehouse, table: str) -> Snapshot:
    """The committed state of a table."""
    # The entry is read before the table: after a commit in between it is too old, so that the reader looks again.
    entry = newest_log_entry(warehouse, table)
    delta = newest_table(warehouse, table)
    if delta is None:
        return Snapshot("", [], [], False)
    columns = [field.name for field in delta.schema().fields]
    mixed = len(columns) > _first_column_count(warehouse, table)
    return Snapshot(entry, logged_names(delta), columns, mixed)


def table_versions(warehouse: Warehouse) -> dict[str, int]:
    """The newest version of every table to which something was committed."""
    found = {table: newest_table(warehouse, table) for table in TABLES}
    return {table: int(delta.version()) for table, delta in found.items() if delta is not None}


def _first_column_count(warehouse: Warehouse, table: str) -> int:
    # The first entry is parsed here, because opening a second DeltaTable takes longer than everything else.
    actions = map(json.loads, (warehouse.store.get(f"tables/{table}/{_FIRST_ENTRY}") or b"").splitlines())
    [schema] = [action["metaData"]["schemaString"] for action in actions if "metaData" in action]
    return len(json.loads(schema)["fields"])
