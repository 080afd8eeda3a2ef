"""Lists the entries of a Delta table's log, and notices entries that were lost, emptied or cut.

Delta reads an emptied entry as one that added nothing, and cannot know of a lost newest one: rows would be missing
without a word. So each commit writes the sizes of all entries into a file beside the log.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.atomic import sync, write_text

LOG = "_delta_log"
_SIZES = "_log_sizes.json"
"""Delta's own tools leave files alone whose names begin with `_`."""
_ENTRY = re.compile(r"\d{20}\.json")


class LogEntry(NamedTuple):
    """One entry of the log of a table; each is one version."""

    name: str
    size: int
    """Bytes."""


def log_entries(table: Path) -> list[LogEntry]:
    """The entries of the log of the table in a folder, oldest first; empty if nothing was committed.

    Raises:
        BadInputError: an entry is missing, empty, or has another size than when it was committed.
    """
    entries = _listed(table)
    if not _is_whole(table, entries):
        # Another process may have committed while the folder was listed.
        entries = _listed(table)
        for damage in _damages(table, entries):
            raise BadInputError(damage)
    return entries


def make_log_durable(table: Path) -> None:
    """Bring the entries that were added since the last call to the disk, and remember their sizes.

    Raises:
        BadInputError: see `log_entries`.
    """
    entries, log = log_entries(table), table / LOG
    known = _remembered(table)
    fresh = {Path(entry.name).stem for entry in entries[len(known) :]}
    if not fresh:
        return
    for path in log.iterdir():
        # A checkpoint of an entry bears its number.
        if path.name.partition(".")[0] in fresh or path.name == "_last_checkpoint":
            sync(path)
    # The folder above has a new name in it after the first commit only.
    for folder in (log, table) if known else (log, table, table.parent):
        sync(folder)
    write_text(table / _SIZES, json.dumps([entry.size for entry in entries]) + "\n")


def first_unreadable_entry(table: Path) -> Path | None:
    """The oldest entry that is not JSON; None if all are."""
    for entry in log_entries(table):
        path = table / LOG / entry.name
        try:
            for line in path.read_text(encoding="utf-8").splitlines():
                json.loads(line)
        except ValueError:
            return path
    return None


def _listed(table: Path) -> list[LogEntry]:
    try:
        with os.scandir(table / LOG) as files:
            return sorted(LogEntry(file.name, file.stat().st_size) for file in files if _ENTRY.fullmatch(file.name))
    except FileNotFoundError:
        return []


def _is_whole(table: Path, entries: list[LogEntry]) -> bool:
    """Whether there is no damage; faster than looking for each, because every read of a table asks."""
    known = _remembered(table)
    sizes = [entry.size for entry in entries]
    last = int(Path(entries[-1].name).stem) if entries else -1
    return last == len(entries) - 1 and all(sizes) and sizes[: len(known)] == known


def _damages(table: Path, entries: list[LogEntry]) -> Iterator[str]:
    sizes = {entry.name: entry.size for entry in entries}
    known = _remembered(table)
    for version in range(max(len(known), len(entries))):
        name = f"{version:020d}.json"
        size = sizes.get(name)
        path = table / LOG / name
        if size is None:
            yield f"{path}: missing; its rows would not be read; restore the file from a copy"
        elif not size:
            yield f"{path}: empty; its rows would not be read; restore the file from a copy"
        elif version < len(known) and size != known[version]:
            yield f"{path}: has {size} of the {known[version]} bytes that were committed; restore the file from a copy"


def _remembered(table: Path) -> list[int]:
    """The sizes of the entries that the last commit saw; empty for a table of an earlier trajmill."""
    path = table / _SIZES
    try:
        sizes = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError:
        sizes = None
    if not isinstance(sizes, list) or not all(isinstance(size, int) for size in sizes):
        raise BadInputError(f"{path}:1: not the sizes of the log's entries; restore it from a copy, or delete it")
    return sizes
