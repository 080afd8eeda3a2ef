"""Lists the entries of a Delta table's log, and notices entries that were lost, emptied or cut.

Delta reads an emptied entry as one that added nothing, and cannot know of a lost newest one: rows would be missing
without a word. So each commit writes the sizes of all entries into a file beside the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import Warehouse

LOG = "_delta_log"
_SIZES = "_log_sizes.json"
"""Delta's own tools leave files alone whose names begin with `_`."""
_ENTRY = re.compile(r"\d{20}\.json")


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
    return _checked(warehouse, table).entries


def make_log_durable(warehouse: Warehouse, table: str) -> list[LogEntry]:
    """Bring the entries that were added since the last call to the disk, remember their sizes, and return all entries.

    Raises:
        BadInputError: see `log_entries`.
    """
    store, (entries, known) = warehouse.store, _checked(warehouse, table)
    fresh = {Path(entry.name).stem for entry in entries[len(known) :]}
    if not fresh:
        return entries
    # What a bucket has is durable.
    names = [file.name for file in store.files(_log(table))] if store.is_local else []
    # A checkpoint of an entry bears its number.
    store.sync([name for name in names if _last(name).partition(".")[0] in fresh or _last(name) == "_last_checkpoint"])
    store.put(_sizes(table), (json.dumps([entry.size for entry in entries]) + "\n").encode())
    return entries


def first_unreadable_entry(warehouse: Warehouse, table: str) -> str | None:
    """Where the oldest entry is that is not JSON; None if all are."""
    for entry in log_entries(warehouse, table):
        name = f"{_log(table)}/{entry.name}"
        try:
            for line in (warehouse.store.get(name) or b"").splitlines():
                json.loads(line)
        except ValueError:
            return warehouse.store.uri(name)
    return None


def _log(table: str) -> str:
    return f"tables/{table}/{LOG}"


def _entry(table: str, version: int) -> str:
    return f"{_log(table)}/{version:020d}.json"


def _sizes(table: str) -> str:
    return f"tables/{table}/{_SIZES}"


def _last(name: str) -> str:
    return name.rpartition("/")[2]


class _Log(NamedTuple):
    """The log of a table."""

    entries: list[LogEntry]
    """All entries, oldest first."""
    known: list[int]
    """The sizes of those that the last commit saw; empty for a table of an earlier trajmill."""


def _checked(warehouse: Warehouse, table: str) -> _Log:
    log = _Log(_listed(warehouse, table), _remembered(warehouse, table))
    if not _is_whole(log):
        # Another process may have committed while the folder was listed.
        log = _Log(_listed(warehouse, table), _remembered(warehouse, table))
        for damage in _damages(warehouse, table, log):
            raise BadInputError(damage)
    return log


def _listed(warehouse: Warehouse, table: str) -> list[LogEntry]:
    files = (LogEntry(_last(file.name), file.size, file.modified) for file in warehouse.store.files(_log(table)))
    return sorted(entry for entry in files if _ENTRY.fullmatch(entry.name))


def _is_whole(log: _Log) -> bool:
    """Whether there is no damage; faster than looking for each, because every read of a table asks."""
    sizes = [entry.size for entry in log.entries]
    last = int(Path(log.entries[-1].name).stem) if log.entries else -1
    return last == len(sizes) - 1 and all(sizes) and sizes[: len(log.known)] == log.known


def _damages(warehouse: Warehouse, table: str, log: _Log) -> Iterator[str]:
    entries, known = log
    sizes = {entry.name: entry.size for entry in entries}
    for version in range(max(len(known), len(entries))):
        name = _last(_entry(table, version))
        size = sizes.get(name)
        path = warehouse.store.uri(f"{_log(table)}/{name}")
        if size is None:
            yield f"{path}: missing; its rows would not be read; restore the file from a copy"
        elif not size:
            yield f"{path}: empty; its rows would not be read; restore the file from a copy"
        elif version < len(known) and size != known[version]:
            yield f"{path}: has {size} of the {known[version]} bytes that were committed; restore the file from a copy"


def _remembered(warehouse: Warehouse, table: str) -> list[int]:
    data = warehouse.store.get(_sizes(table))
    if data is None:
        return []
    try:
        sizes = json.loads(data)
    except ValueError:
        sizes = None
    if not isinstance(sizes, list) or not all(isinstance(size, int) for size in sizes):
        where = warehouse.store.uri(_sizes(table))
        raise BadInputError(f"{where}:1: not the sizes of the log's entries; restore it from a copy, or delete it")
    return sizes
