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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.store.base import StoredFile
from trajmill.warehouse.store.connection import DELTA_RETRIES, credentials_key, repeat

_SIZES = "_log_sizes.json"
"""Delta's own tools leave files alone whose names begin with `_`."""
_ENTRY = re.compile(r"/\d{20}\.json$")


class Snapshot(NamedTuple):
    log_entry: str
    """Identifies the newest entry of the table's log, see `newest_log_entry`."""
    files: Sequence[str]
    columns: Sequence[str]
    mixed: bool
    """Whether columns were added since the first commit, so that some files may lack them."""


def log_entries(warehouse: Warehouse, table: str) -> list[StoredFile]:
    """Return the entries of a table's log, oldest first. Raises BadInputError if one is missing or damaged."""
    damage = ""
    # Another process may have committed while the folder was listed, so damage is looked for twice.
    for _ in range(2):
        files = warehouse.store.files(_log(table))
        entries = [file for file in files if _ENTRY.search(file.name)]
        damage = _damage(warehouse, table, entries)
        if not damage:
            return entries
    raise BadInputError(f"{damage}; restore the file from a copy")


def make_log_durable(warehouse: Warehouse, table: str) -> None:
    """Bring new entries to the disk, and store the sizes of all. Raises BadInputError as `log_entries` does."""
    store, entries = warehouse.store, log_entries(warehouse, table)
    fresh = {PurePosixPath(entry.name).stem for entry in entries[len(_sizes(warehouse, table)) :]}
    if not fresh:
        return
    # What a bucket has is durable. A checkpoint of an entry has its number.
    names = [file.name for file in store.files(_log(table))] if store.is_local else []
    store.sync([name for name in names if PurePosixPath(name).name.partition(".")[0] in {*fresh, "_last_checkpoint"}])
    store.put(f"tables/{table}/{_SIZES}", (json.dumps([entry.size for entry in entries]) + "\n").encode())


def _log(table: str) -> str:
    return f"tables/{table}/_delta_log"


def _sizes(warehouse: Warehouse, table: str) -> list[int]:
    """Return the sizes of the entries at the last commit; empty for a table of an earlier trajmill."""
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


def _damage(warehouse: Warehouse, table: str, entries: Sequence[StoredFile]) -> str:
    """Describe the oldest entry that is missing or damaged; empty without one."""
    known, sizes = _sizes(warehouse, table), {int(entry.name[-25:-5]): entry.size for entry in entries}
    for version in range(max(len(known), max(sizes, default=-1) + 1)):
        size = sizes.get(version)
        if size and (version >= len(known) or size == known[version]):
            continue
        path = warehouse.store.uri(f"{_log(table)}/{version:020d}.json")
        if not size:
            return f"{path}: {'missing' if size is None else 'empty'}; its rows would not be read"
        return f"{path}: has {size} of the {known[version]} bytes that were committed"
    return ""


@dataclass
class _SharedTable:
    """A Delta table that all callers of this process share: opening one is several requests to a bucket."""

    delta: DeltaTable | None = None
    entries: tuple[StoredFile, ...] = ()
    """The log when it was last read."""
    lock: threading.Lock = field(default_factory=threading.Lock)


@lru_cache(maxsize=4 * len(TABLES))
def _shared(warehouse: Warehouse, table: str, credentials: str) -> _SharedTable:
    return _SharedTable()


def delta_table(warehouse: Warehouse, table: str, version: int | None = None) -> DeltaTable | None:
    """Return the Delta table at a version, or at its newest; None if nothing was committed to it.

    Callers share the object of the newest version, which moves on to newer ones. Raises BadInputError if entries of its
    log are missing or damaged.
    """
    store, entries = warehouse.store, log_entries(warehouse, table)
    if not entries:
        return None

    def opened() -> DeltaTable:
        return DeltaTable(store.uri(f"tables/{table}"), version=version, storage_options=DELTA_RETRIES)

    def found() -> DeltaTable:
        with store.one_line(f"tables/{table}"):
            try:
                if version is not None:
                    return opened()
                shared = _shared(warehouse, table, credentials_key())
                with shared.lock:
                    # Another log, e.g. of a warehouse that was made anew at its address, or a restored entry.
                    if shared.delta is None or tuple(entries[: len(shared.entries)]) != shared.entries:
                        shared.delta = opened()
                    elif int(shared.delta.version()) < len(entries) - 1:
                        shared.delta.update_incremental()
                    shared.entries = tuple(entries)
                    return shared.delta
            except DeltaError as error:
                # Name the oldest entry that is not JSON.
                path = store.uri(_log(table))
                for entry in log_entries(warehouse, table):
                    try:
                        for line in (store.get(entry.name) or b"").splitlines():
                            json.loads(line)
                    except ValueError:
                        path = store.uri(entry.name)
                        break
                reason = str(error).splitlines()[0]
                raise BadInputError(f"{path}: not a log of Delta ({reason}); restore it from a copy") from error

    return repeat(store, found)


def logged_names(delta: DeltaTable) -> list[str]:
    """Return the file names of a table's version, sorted, relative to the table's folder."""
    return sorted(pa.table(delta.get_add_actions()).column("path").to_pylist())


def committed_files(warehouse: Warehouse, table: str, version: int | None = None) -> list[Path]:
    """Return the paths on this machine of the files that `committed_names` finds."""
    return [warehouse.root / name for name in committed_names(warehouse, table, version)]


def committed_names(
    warehouse: Warehouse,
    table: str,
    version: int | None = None,
    rounds: Collection[int] | None = None,
    run_id: str | None = None,
    where: Mapping[str, Collection[str]] | None = None,
) -> list[str]:
    """Return the names in the store of the Parquet files of a table's version, sorted; empty without any commit.

    With `rounds`, `run_id` or `where` (by column, the values of the wanted rows), files without such rows are left out
    by the log's statistics; the others may still have other rows.
    """
    delta = delta_table(warehouse, table, version)
    if delta is None or (rounds is not None and not rounds) or not all((where or {}).values()):
        return []
    conditions: list[tuple[str, str, Any]] = [] if rounds is None else [("round", "in", list(rounds))]
    conditions += [] if run_id is None else [("run_id", "=", run_id)]
    for column, values in (where or {}).items():
        conditions += [(column, ">=", min(values)), (column, "<=", max(values))]
    if conditions:
        uris = delta.file_uris(file_pruning_predicate=conditions)
        names = sorted(unquote(uri.rpartition("/")[2]) for uri in uris)
    else:
        names = logged_names(delta)
    return [f"tables/{table}/{name}" for name in names]


def newest_log_entry(warehouse: Warehouse, table: str) -> str:
    """Identify the newest entry, also by size and time: a warehouse that was made anew has the same names."""
    entries = log_entries(warehouse, table)
    return " ".join(map(str, entries[-1])) if entries else ""


def snapshot(warehouse: Warehouse, table: str) -> Snapshot:
    # The entry is read before the table: after a commit in between it is too old, so that the reader looks again.
    entry = newest_log_entry(warehouse, table)
    delta = delta_table(warehouse, table)
    if delta is None:
        return Snapshot("", [], [], False)
    columns = [field.name for field in delta.schema().fields]
    # The first entry is parsed here, because opening a second DeltaTable takes longer than everything else.
    actions = map(json.loads, (warehouse.store.get(f"{_log(table)}/{0:020d}.json") or b"").splitlines())
    [schema] = [action["metaData"]["schemaString"] for action in actions if "metaData" in action]
    return Snapshot(entry, logged_names(delta), columns, len(columns) > len(json.loads(schema)["fields"]))


def table_versions(warehouse: Warehouse) -> dict[str, int]:
    found = {table: delta_table(warehouse, table) for table in TABLES}
    return {table: int(delta.version()) for table, delta in found.items() if delta is not None}
