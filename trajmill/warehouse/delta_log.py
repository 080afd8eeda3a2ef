"""The logs of the Delta tables: versions, files and columns, and damage that Delta would not report.

Delta reads an emptied entry as one that added nothing, and cannot notice that the newest one is lost: rows would be
missing silently. So each commit writes the sizes and hashes of all entries into a file beside the log; sizes are
compared by every reader, hashes by `verify`.

Paths are made from the relative ones in the log: `DeltaTable.file_uris` percent-encodes the folder's own name, and
`to_pyarrow_dataset` brings its own file system and threads.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
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
from trajmill.warehouse.store.base import StoredFile
from trajmill.warehouse.store.connection import DELTA_RETRIES, credentials_key, repeat

_SIZES = "_log_sizes.json"
"""Delta's own tools leave files alone whose names begin with `_`."""
HASHES = "trajmill.sha256"
"""Key of an entry's `commitInfo` that has the SHA-256 of each data file that it adds, by name, as JSON."""
_ENTRY = re.compile(r"/[0-9]{20}\.json$")
_LAST_CHECKPOINT = "_last_checkpoint"


class Snapshot(NamedTuple):
    log_entry: str
    """Identifies the newest entry of the table's log, see `newest_log_entry`."""
    files: Sequence[str]
    columns: Sequence[str]
    mixed: bool
    """Whether columns were added since the first commit, so that some files may lack them."""


_SEEN: ContextVar[dict[tuple[str, str], list[StoredFile]] | None] = ContextVar("_SEEN", default=None)
"""By address and table, the logs that `one_snapshot` has listed."""


@contextmanager
def one_snapshot() -> Iterator[None]:
    """List the log of each table at most once within the block and blocks in it, unless the block commits to it."""
    if _SEEN.get() is not None:
        yield
        return
    outside = _SEEN.set({})
    try:
        yield
    finally:
        _SEEN.reset(outside)


def look_again(warehouse: Warehouse, table: str) -> None:
    """List a table's log anew, though a snapshot has it."""
    (_SEEN.get() or {}).pop((warehouse.address, table), None)


def log_entries(warehouse: Warehouse, table: str) -> list[StoredFile]:
    """Return the entries of a table's log, oldest first. Raises BadInputError if one is missing or damaged."""
    return [file for file in log_files(warehouse, table) if _ENTRY.search(file.name)]


def log_files(warehouse: Warehouse, table: str) -> list[StoredFile]:
    damage, seen, key = "", _SEEN.get(), (warehouse.address, table)
    if seen is not None and key in seen:
        return seen[key]
    # Another process may have committed while the folder was listed, so damage is looked for twice.
    for _ in range(2):
        files = warehouse.store.files(f"tables/{table}/_delta_log")
        damage = _damage(warehouse, table, [file for file in files if _ENTRY.search(file.name)])
        if not damage:
            if seen is not None:
                seen[key] = files
            return files
    raise BadInputError(f"{damage}; restore the file from a copy")


def make_log_durable(warehouse: Warehouse, table: str) -> None:
    """Bring new entries to the disk, and store sizes and hashes of all. Raises BadInputError as `log_entries` does."""
    look_again(warehouse, table)
    store, known = warehouse.store, known_log(warehouse, table)
    names = {file.name.rpartition("/")[2]: file.name for file in log_files(warehouse, table)}
    fresh = [name for name in names if name not in known and name != _LAST_CHECKPOINT]
    if fresh:
        store.sync([name for last, name in names.items() if last in (*fresh, _LAST_CHECKPOINT)])
        for name in fresh:
            data = store.get(names[name]) or b""
            known[name] = (len(data), hashlib.sha256(data).hexdigest())
        store.put(f"tables/{table}/{_SIZES}", (json.dumps(known) + "\n").encode())


def known_log(warehouse: Warehouse, table: str) -> dict[str, tuple[int, str]]:
    """Return sizes and hashes of a log's files at its last commit. Raises BadInputError if they are damaged."""
    name = f"tables/{table}/{_SIZES}"
    try:
        known = json.loads(warehouse.store.get(name) or b"{}")
        if isinstance(known, list):
            # An earlier trajmill kept the sizes alone.
            known = {f"{version:020d}.json": (size, "") for version, size in enumerate(known)}
        return {str(file): (int(size), str(digest)) for file, (size, digest) in known.items()}
    except (ValueError, TypeError, AttributeError):
        line = "not the sizes of the log's entries; restore it from a copy, or delete it"
        raise BadInputError(f"{warehouse.store.uri(name)}:1: {line}") from None


def _damage(warehouse: Warehouse, table: str, entries: Sequence[StoredFile]) -> str:
    store, known = warehouse.store, known_log(warehouse, table)
    committed = {int(name[:20]): size for name, (size, _) in known.items() if _ENTRY.search(f"/{name}")}
    sizes = {int(entry.name[-25:-5]): entry.size for entry in entries}
    for version in range(max((*committed, *sizes), default=-1) + 1):
        size = sizes.get(version)
        if size and size == committed.get(version, size):
            continue
        path = store.uri(f"tables/{table}/_delta_log/{version:020d}.json")
        if not size:
            return f"{path}: {'missing' if size is None else 'empty'}; its rows would not be read"
        return f"{path}: has {size} of the {committed[version]} bytes that were committed"
    if not known and len(entries) > 1 and HASHES.encode() in (store.get(entries[-2].name) or b""):
        # Sizes are stored before the next entry is made.
        return f"{store.uri(f'tables/{table}/{_SIZES}')}: missing, and newer entries of the log may be missing, too"
    return ""


@dataclass
class _SharedTable:
    """A Delta table that all callers of this process share: opening one is several requests to a bucket."""

    delta: DeltaTable | None = None
    entries: tuple[StoredFile, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)


@lru_cache(maxsize=4 * len(TABLES))
def _shared(warehouse: Warehouse, table: str, credentials: str) -> _SharedTable:
    return _SharedTable()


def delta_table(warehouse: Warehouse, table: str, version: int | None = None) -> DeltaTable | None:
    """Return the Delta table at a version, or at its newest; None if nothing was committed to it.

    Callers share that of the newest version, which moves on. Raises BadInputError if its log is damaged.
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
                path = store.uri(f"tables/{table}/_delta_log")
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

    Files without rows of `rounds`, `run_id` or `where` (wanted values by column) are left out by the log's statistics.
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
    actions = map(json.loads, (warehouse.store.get(f"tables/{table}/_delta_log/{0:020d}.json") or b"").splitlines())
    [schema] = [action["metaData"]["schemaString"] for action in actions if "metaData" in action]
    return Snapshot(entry, logged_names(delta), columns, len(columns) > len(json.loads(schema)["fields"]))


def table_versions(warehouse: Warehouse) -> dict[str, int]:
    found = {table: delta_table(warehouse, table) for table in TABLES}
    return {table: int(delta.version()) for table, delta in found.items() if delta is not None}
