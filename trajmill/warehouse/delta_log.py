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
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.atomic import write_bytes
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.store.base import StoredFile, StoreError

_SIZES = "_log_sizes.json"
"""Delta's own tools leave files alone whose names begin with `_`."""
HASHES = "trajmill.sha256"
"""Key of an entry's `commitInfo` that has the SHA-256 of each data file that it adds, by name, as JSON."""
_ENTRY = re.compile(r"/[0-9]{20}\.json$")
_LAST_CHECKPOINT = "_last_checkpoint"
_CHECKPOINT = ".checkpoint.parquet"
_KEPT_CHECKPOINTS = 2
"""Each lists all files of a table. Who opens the table meanwhile may still read the one before the last."""
_Known = Mapping[str, tuple[int, str]]
_Condition = tuple[str, str, Any]


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
    seen = _SEEN.get()
    outside = _SEEN.set({} if seen is None else seen)
    try:
        yield
    finally:
        _SEEN.reset(outside)


def look_again(warehouse: Warehouse, table: str) -> None:
    """List a table's log anew, though a snapshot has it."""
    (_SEEN.get() or {}).pop((warehouse.address, table), None)


def _entries(files: Sequence[StoredFile]) -> list[StoredFile]:
    return [file for file in files if _ENTRY.search(file.name)]


def log_files(warehouse: Warehouse, table: str) -> list[StoredFile]:
    """Return the files of a table's log, oldest first. Raises BadInputError if an entry is missing or damaged."""
    seen, key, log = _SEEN.get(), (warehouse.address, table), _read_log(warehouse, table)
    if seen is not None and key in seen:
        return seen[key]
    # Another process may have committed while the folder was listed, so damage is looked for twice.
    for _ in range(2):
        files = warehouse.store.files(f"tables/{table}/_delta_log")
        with log.lock:
            entries, before, damage = _entries(files), _entries(log.files), ""
            if entries[: len(before)] != before:
                # Another log, e.g. of a warehouse that was made anew at its address, or a restored entry.
                log.files, log.known, log.delta = (), None, None
            if not log.expects(entries):
                log.known = known_log(warehouse, table)
                damage = _damage(warehouse, table, entries, log.known)
            if not damage:
                log.files = files
                if seen is not None:
                    seen[key] = files
                return files
    raise BadInputError(f"{damage}; restore the file from a copy")


def known_log(warehouse: Warehouse, table: str) -> _Known:
    """Return sizes and hashes of a log's files at its last commit. Raises BadInputError if they are damaged."""
    name = f"tables/{table}/{_SIZES}"
    try:
        known = json.loads(warehouse.store.get(name) or b"{}")
        if isinstance(known, list):
            # An earlier trajmill kept the sizes alone.
            known = {f"{version:020d}.json": (size, "") for version, size in enumerate(known)}
        digest = known.pop(_SIZES, None)
        if digest not in (None, content_id(known)):
            raise ValueError
        return {str(file): (int(size), str(digest)) for file, (size, digest) in known.items()}
    except (ValueError, TypeError, AttributeError):
        line = "not the sizes of the log's entries, or changed; restore it from a copy"
        raise BadInputError(f"{warehouse.store.uri(name)}:1: {line}") from None


def _damage(warehouse: Warehouse, table: str, entries: Sequence[StoredFile], known: _Known) -> str:
    store = warehouse.store
    committed = {int(name[:20]): size for name, (size, _) in known.items() if _ENTRY.search(f"/{name}")}
    sizes = {int(entry.name[-25:-5]): entry.size for entry in entries}
    for version in range(max((*committed, *sizes), default=-1) + 1):
        size = sizes.get(version)
        if size and size == committed.get(version, size):
            continue
        path = store.uri(f"tables/{table}/_delta_log/{version:020d}.json")
        if size:
            return f"{path}: has {size} of the {committed[version]} bytes that were committed"
        return f"{path}: {'missing' if size is None else 'empty'}; its rows would not be read"
    if not known and len(entries) > 1 and HASHES.encode() in (store.get(entries[-2].name) or b""):
        # Sizes are stored before the next entry is made.
        return f"{store.uri(f'tables/{table}/{_SIZES}')}: missing, and newer entries of the log may be missing, too"
    return ""


@dataclass
class _ReadLog:
    """What this process has read of a table's log; all callers share it."""

    files: Sequence[StoredFile] = ()
    known: _Known | None = None
    """Sizes and hashes by the last part of the name, at the last commit of which this process knows."""
    delta: DeltaTable | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def expects(self, entries: Sequence[StoredFile]) -> bool:
        """Whether exactly these entries have been committed, as far as this process can tell without a request."""
        known = {name: size for name, (size, _) in (self.known or {}).items() if _ENTRY.search(f"/{name}")}
        return self.known is not None and known == {entry.name[-25:]: entry.size for entry in entries}


@lru_cache(maxsize=4 * len(TABLES))
def _read_log(warehouse: Warehouse, table: str) -> _ReadLog:
    return _ReadLog()


def delta_table(warehouse: Warehouse, table: str, version: int | None = None) -> DeltaTable | None:
    """Return the Delta table at a version, or at its newest; None if nothing was committed to it.

    Callers share that of the newest version, which moves on. Raises BadInputError if its log is damaged.
    """
    store, files, log = warehouse.store, log_files(warehouse, table), _read_log(warehouse, table)
    if not (entries := _entries(files)):
        return None
    with log.lock:
        newest = int(entries[-1].name[-25:-5])
        if version is None and log.delta is not None and int(log.delta.version()) == newest:
            return log.delta
        _copied_log(warehouse, table, files, whole=version is not None)
        try:
            if version is not None:
                return DeltaTable(str(warehouse.table(table)), version=version)
            if log.delta is not None and store.is_local:
                log.delta.update_incremental()
            if log.delta is None or int(log.delta.version()) != newest:
                log.delta = DeltaTable(str(warehouse.table(table)), version=newest)
            return log.delta
        except DeltaError as error:
            name, reason = f"tables/{table}/_delta_log", str(error).splitlines()[0]
            # Name the oldest entry that is not JSON.
            for entry in entries:
                try:
                    [*map(json.loads, (store.get(entry.name) or b"").splitlines())]
                except ValueError:
                    name = entry.name
                    break
            raise BadInputError(f"{store.uri(name)}: not a log of Delta ({reason}); restore it from a copy") from error


def _copied_log(warehouse: Warehouse, table: str, files: Sequence[StoredFile], whole: bool = False) -> list[Path]:
    """Bring the log to this machine, `whole` or from its last checkpoint on; return the paths.

    A copy is used if it has the hash that was committed. Raises BadInputError if a file itself has another.
    """
    paths = [warehouse.root / file.name for file in files if not file.name.endswith(_LAST_CHECKPOINT)]
    if not warehouse.store.is_local:
        for path in {*warehouse.table(table).glob("_delta_log/[0-9]*")}.difference(paths):
            if path < paths[-1]:
                # Of an earlier log at this address. What is newer another process may have listed later.
                path.unlink(missing_ok=True)
    known = _read_log(warehouse, table).known or {}
    checkpoints = [place for place, path in enumerate(paths) if path.name.endswith(_CHECKPOINT)]
    needed = paths[checkpoints[-1] :] if checkpoints and not whole else paths
    for path in needed:
        digest = known.get(path.name, (0, ""))[1]
        if not path.exists() or digest != hashlib.sha256(path.read_bytes()).hexdigest():
            data = warehouse.store.get(warehouse.name(path)) or b""
            if digest not in ("", hashlib.sha256(data).hexdigest()):
                where = warehouse.store.uri(warehouse.name(path))
                raise BadInputError(f"{where}: changed since it was committed; restore it from a copy")
            if not warehouse.store.is_local:
                write_bytes(path, data)
    return needed


@contextmanager
def log_to_extend(warehouse: Warehouse, table: str) -> Iterator[tuple[Path, DeltaTable | None]]:
    """Yield a folder in which Delta can commit, and what `delta_table` returns; then make new entries durable.

    It is the table's, or a draft on this machine whose entries are then created in the bucket. Raises BadInputError if
    the log is damaged, and StoreError if another process has committed meanwhile.
    """
    delta, log = delta_table(warehouse, table), _read_log(warehouse, table)
    with TemporaryDirectory() as draft:
        folder = warehouse.table(table) if warehouse.store.is_local else Path(draft)
        if delta is not None and not warehouse.store.is_local:
            (folder / "_delta_log").mkdir()
            for path in _copied_log(warehouse, table, log.files):
                (folder / "_delta_log" / path.name).symlink_to(path)
            delta = DeltaTable(draft)
        if delta is not None and not log.known:
            # Whoever reads a log with two entries of ours expects the sizes of the first.
            _make_log_durable(warehouse, table, folder)
        yield folder, delta
        _make_log_durable(warehouse, table, folder)


def _make_log_durable(warehouse: Warehouse, table: str, folder: Path) -> None:
    """Bring new entries to the disk or the bucket, store sizes and hashes of all, and delete old checkpoints."""
    look_again(warehouse, table)
    store, log, names = warehouse.store, _read_log(warehouse, table), f"tables/{table}/_delta_log"
    known = dict(log.known or {})
    # Entries before checkpoints, and last what points to these.
    paths = sorted(folder.glob("_delta_log/*"), key=lambda path: (path.suffix != ".json", path.name))
    fresh = [path for path in paths if path.name == _LAST_CHECKPOINT or not known.get(path.name, (0, ""))[1]]
    if {path.name for path in fresh} <= {_LAST_CHECKPOINT}:
        return
    store.sync([f"{names}/{path.name}" for path in fresh])
    for path in fresh:
        name, data = f"{names}/{path.name}", path.read_bytes()
        if not store.is_local:
            if path.suffix != ".json":
                store.put(name, data)
            elif not store.create(name, data):
                raise StoreError(f"{store.uri(name)}: another process has committed at the same time")
            write_bytes(warehouse.root / name, data)
        if path.name != _LAST_CHECKPOINT:
            known[path.name] = (len(data), hashlib.sha256(data).hexdigest())
    outdated = sorted(name for name in known if name.endswith(_CHECKPOINT))[:-_KEPT_CHECKPOINTS]
    known = {name: value for name, value in known.items() if name not in outdated}
    sizes = json.dumps({**known, _SIZES: content_id(known)})
    store.put(f"tables/{table}/{_SIZES}", f"{sizes}\n".encode())
    log.known = known
    if outdated:
        store.delete(*(f"{names}/{name}" for name in outdated))


def logged_names(delta: DeltaTable, conditions: Sequence[_Condition] = ()) -> list[str]:
    uris = delta.file_uris(file_pruning_predicate=[*conditions] or None)
    return sorted(unquote(uri.rpartition("/")[2]) for uri in uris)


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
    conditions: list[_Condition] = [] if rounds is None else [("round", "in", list(rounds))]
    conditions += [] if run_id is None else [("run_id", "=", run_id)]
    for column, values in (where or {}).items():
        conditions += [(column, ">=", min(values)), (column, "<=", max(values))]
    return [f"tables/{table}/{name}" for name in logged_names(delta, conditions)]


def newest_log_entry(warehouse: Warehouse, table: str) -> str:
    """Identify the newest entry, also by size and time: a warehouse that was made anew has the same names."""
    entries = _entries(log_files(warehouse, table))
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
