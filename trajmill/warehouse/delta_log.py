"""The logs of the Delta tables: versions, files and columns, and damage that Delta would not report.

Delta reads an emptied entry as one that added nothing, and cannot notice that the newest one is lost: rows would be
missing silently. So each commit writes the sizes of all entries into a file beside the log.

Paths are made from the relative ones in the log: `DeltaTable.file_uris` percent-encodes the folder's own name, and
`to_pyarrow_dataset` brings its own file system and threads.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.store.connection import DELTA_RETRIES, CredentialsKey, ask_again, credentials_key

_LOG = "_delta_log"
_SIZES = "_log_sizes.json"
"""Delta's own tools leave files alone whose names begin with `_`."""
_ENTRY = re.compile(r"\d{20}\.json")


class Between(NamedTuple):
    """Bounds of a text column, both included."""

    column: str
    least: str
    greatest: str


class Snapshot(NamedTuple):
    """The committed state of a table."""

    log_entry: str
    """Identifies the newest entry of the table's log, see `newest_log_entry`."""
    files: Sequence[str]
    """Names of the files, sorted, relative to the table's folder."""
    columns: Sequence[str]
    mixed: bool
    """Whether columns were added since the first commit, so that some files may lack them."""


class LogEntry(NamedTuple):
    """One entry of the log of a table; each is one version."""

    name: str
    size: int
    """Bytes."""
    modified: float
    """When it was stored, in seconds since the epoch."""


def log_entries(warehouse: Warehouse, table: str) -> list[LogEntry]:
    """The entries of the log of a table, oldest first; empty if nothing was committed.

    Raises:
        BadInputError: an entry is missing, empty, or has another size than when it was committed.
    """
    entries = _listed(warehouse, table)
    if _damage(warehouse, table, entries, _sizes(warehouse, table)):
        # Another process may have committed while the folder was listed.
        entries = _listed(warehouse, table)
        if damage := _damage(warehouse, table, entries, _sizes(warehouse, table)):
            raise BadInputError(f"{damage}; restore the file from a copy")
    return entries


def make_log_durable(warehouse: Warehouse, table: str) -> None:
    """Bring the entries that were added since the last call to the disk, and store the sizes of all.

    Raises:
        BadInputError: see `log_entries`.
    """
    store, entries = warehouse.store, log_entries(warehouse, table)
    fresh = {Path(entry.name).stem for entry in entries[len(_sizes(warehouse, table)) :]}
    if not fresh:
        return
    # What a bucket has is durable. A checkpoint of an entry has its number.
    names = [file.name for file in store.files(_log(table))] if store.is_local else []
    store.sync([name for name in names if _last(name).partition(".")[0] in fresh or _last(name) == "_last_checkpoint"])
    store.put(f"tables/{table}/{_SIZES}", (json.dumps([entry.size for entry in entries]) + "\n").encode())


def _log(table: str) -> str:
    return f"tables/{table}/{_LOG}"


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _listed(warehouse: Warehouse, table: str) -> list[LogEntry]:
    files = (LogEntry(_last(file.name), file.size, file.modified) for file in warehouse.store.files(_log(table)))
    return sorted(entry for entry in files if _ENTRY.fullmatch(entry.name))


def _sizes(warehouse: Warehouse, table: str) -> list[int]:
    """The sizes of the entries at the last commit; empty for a table of an earlier trajmill."""
    name = f"tables/{table}/{_SIZES}"
    data = warehouse.store.get(name)
    try:
        sizes = json.loads(data or b"[]")
    except ValueError:
        sizes = None
    if not isinstance(sizes, list) or not all(isinstance(size, int) for size in sizes):
        where = warehouse.store.uri(name)
        raise BadInputError(f"{where}:1: not the sizes of the log's entries; restore it from a copy, or delete it")
    return sizes


def _damage(warehouse: Warehouse, table: str, entries: Sequence[LogEntry], known: Sequence[int]) -> str:
    """The oldest entry that is missing or damaged, and how; empty without one. `known` are the committed sizes."""
    found = [entry.size for entry in entries]
    newest = int(Path(entries[-1].name).stem) if entries else -1
    if newest == len(found) - 1 and all(found) and found[: len(known)] == known:
        return ""
    sizes = {entry.name: entry.size for entry in entries}
    for version in range(max(len(known), newest + 1)):
        name = f"{version:020d}.json"
        size, path = sizes.get(name), warehouse.store.uri(f"{_log(table)}/{name}")
        if not size:
            return f"{path}: {'missing' if size is None else 'empty'}; its rows would not be read"
        if version < len(known) and size != known[version]:
            return f"{path}: has {size} of the {known[version]} bytes that were committed"
    return ""


@dataclass
class _SharedTable:
    """A Delta table that all callers of this process share: opening one is several requests to a bucket."""

    delta: DeltaTable | None = None
    entries: tuple[LogEntry, ...] = ()
    """The log when it was last read."""
    lock: threading.Lock = field(default_factory=threading.Lock)


@lru_cache(maxsize=4 * len(TABLES))
def _shared(warehouse: Warehouse, table: str, credentials: CredentialsKey) -> _SharedTable:
    return _SharedTable()


def _open(warehouse: Warehouse, table: str, version: int | None = None) -> DeltaTable:
    return DeltaTable(warehouse.store.uri(f"tables/{table}"), version=version, storage_options=DELTA_RETRIES)


def delta_table(warehouse: Warehouse, table: str, version: int | None = None) -> DeltaTable | None:
    """The Delta table at a version (None: the newest); None if nothing was committed to it.

    Raises:
        BadInputError: entries of its log are missing or damaged.
        StoreError: the store does not answer.
    """
    if not log_entries(warehouse, table):
        return None

    def opened() -> DeltaTable:
        with _damage_named(warehouse, table):
            return _open(warehouse, table, version)

    return ask_again(warehouse.store, opened)


def newest_table(warehouse: Warehouse, table: str) -> DeltaTable | None:
    """The Delta table at its newest version; callers share the object, which moves on to newer versions.

    Raises:
        BadInputError: entries of its log are missing or damaged.
        StoreError: the store does not answer.
    """
    entries = log_entries(warehouse, table)
    if not entries:
        return None

    def newest() -> DeltaTable:
        with _damage_named(warehouse, table):
            shared = _shared(warehouse, table, credentials_key())
            with shared.lock:
                delta = shared.delta
                # Another log, e.g. of a warehouse that was made anew at its address, or a restored entry.
                if delta is None or tuple(entries[: len(shared.entries)]) != shared.entries:
                    delta = shared.delta = _open(warehouse, table)
                elif int(delta.version()) < len(entries) - 1:
                    delta.update_incremental()
                shared.entries = tuple(entries)
                return delta

    return ask_again(warehouse.store, newest)


def share_table(warehouse: Warehouse, table: str, delta: DeltaTable) -> None:
    """Let later callers of `newest_table` use a table that this process has committed to."""
    shared = _shared(warehouse, table, credentials_key())
    with shared.lock:
        shared.delta, shared.entries = delta, ()


@contextmanager
def _damage_named(warehouse: Warehouse, table: str) -> Iterator[None]:
    """Turn an error of Delta about the log into one line that names the damaged entry."""
    with warehouse.store.one_line(f"tables/{table}"):
        try:
            yield
        except DeltaError as error:
            path = _unreadable_entry(warehouse, table) or warehouse.store.uri(_log(table))
            reason = str(error).splitlines()[0]
            raise BadInputError(f"{path}: not a log of Delta ({reason}); restore it from a copy") from error


def _unreadable_entry(warehouse: Warehouse, table: str) -> str | None:
    """The path of the oldest entry that is not JSON; None if all are."""
    for entry in log_entries(warehouse, table):
        name = f"{_log(table)}/{entry.name}"
        try:
            for line in (warehouse.store.get(name) or b"").splitlines():
                json.loads(line)
        except ValueError:
            return warehouse.store.uri(name)
    return None


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
    """Identify the newest entry of a table's log; empty without any commit, and equal as long as nothing changes.

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
    actions = map(json.loads, (warehouse.store.get(f"{_log(table)}/{0:020d}.json") or b"").splitlines())
    [schema] = [action["metaData"]["schemaString"] for action in actions if "metaData" in action]
    return len(json.loads(schema)["fields"])
