"""Stores the progress of a stage: append-only journals, markers that are written after the work, and counts.

A journal survives `kill -9`: the operating system has each record before `append` returns, and incomplete records are
ignored. Counts only show progress to other processes: a file of one byte per item, so that an increment is one write.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.store.base import StoredFile

_MARKER = "done.json"
_BLOCK = 1 << 20
_PLANNED = "progress.total"
_COUNTED = "progress-{}.done"

T = TypeVar("T")


class Journal:
    """An append-only file of JSON lines, written by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def append(self, record: bytes) -> None:
        """Add one line of JSON, without the newline. Raises TrajmillError, changing nothing, if the disk is full."""
        if b"\n" in record:
            raise ValueError("a journal record is one line")
        with disk_full_as_error(self.path):
            if self._descriptor is None:
                self._descriptor = open_for_append(self.path, self._whole_bytes())
            append_whole(self._descriptor, record + b"\n")

    def read(self) -> Iterator[bytes]:
        """The complete records, oldest first, without their newlines; empty if there is no file."""
        if not self.path.exists():
            return
        with self.path.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield line[:-1]

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _whole_bytes(self) -> int:
        """Bytes up to and including the last newline."""
        if not self.path.exists():
            return 0
        with self.path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            while end:
                start = max(0, end - _BLOCK)
                file.seek(start)
                newline = file.read(end - start).rfind(b"\n")
                if newline >= 0:
                    return start + newline + 1
                end = start
        return 0


class RecordCounter:
    """Counts the records of the journals of a folder that other processes write; reads each byte once."""

    def __init__(self, folder: Path, pattern: str) -> None:
        self._folder, self._pattern = folder, pattern
        self._read: dict[Path, int] = defaultdict(int)
        self._records = 0

    def count(self) -> int:
        """The number of complete records so far; it stays when a journal is removed."""
        for path in self._folder.glob(self._pattern):
            with suppress(FileNotFoundError), path.open("rb") as file:
                start = file.seek(self._read[path])
                while block := file.read(_BLOCK):
                    if end := block.rfind(b"\n") + 1:
                        # The rest is an incomplete record, which may be cut off and written again.
                        self._read[path] = start + end
                        self._records += block.count(b"\n")
                    start += len(block)
        return self._records


class Progress(NamedTuple):
    done: int
    total: int | None


class ShardProgress:
    """Counts the finished items of one shard; a shard that is done again starts at 0."""

    def __init__(self, folder: Path, shard: str) -> None:
        self._file = folder / _COUNTED.format(shard)
        self._write("wb", 0)

    def add(self, items: int = 1) -> None:
        self._write("ab", items)

    def fill(self, items: int) -> None:
        self._write("wb", items)

    def counted(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items; each counts once the next one is requested."""
        for item in items:
            yield item
            self.add()

    def _write(self, mode: str, items: int) -> None:
        # A full disk ends the stage where it writes rows, not here.
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open(mode) as file:
                file.write(b"." * items)


def plan_items(folder: Path, total: int) -> None:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _PLANNED).write_text(str(total))


def progress_of(folder: Path) -> Progress:
    total = None
    with suppress(OSError, ValueError):
        total = int((folder / _PLANNED).read_text())
    done = 0
    for file in folder.glob(_COUNTED.format("*")):
        with suppress(OSError):
            done += file.stat().st_size
    # A shard that two workers have begun counts twice.
    return Progress(done if total is None else min(done, total), total)


def stage_key(stage: str, configuration: object, inputs: object) -> str:
    """Hash a stage's configuration and the ids or versions of its inputs (JSON values); equal keys give equal rows."""
    return content_id("stage", stage, configuration, inputs)


def mark_done(warehouse: Warehouse, folder: Path, key: str, result: Mapping[str, object]) -> None:
    """Write the marker of a finished stage with a small JSON result; this is the last step of a stage."""
    marker = json.dumps({"key": key, "result": result}, sort_keys=True) + "\n"
    # Its journals are removed next: that must not reach the disk before the marker does.
    warehouse.store.put(warehouse.name(folder / _MARKER), marker.encode())


def read_marker(warehouse: Warehouse, folder: Path, key: str) -> dict[str, Any] | None:
    """The result that `mark_done` wrote with this key; None if there is no marker or it has another key.

    Raises BadInputError if the marker is damaged.
    """
    name = warehouse.name(folder / _MARKER)
    written = warehouse.store.get(name)
    if written is None:
        return None
    try:
        marker = json.loads(written)
        return dict(marker["result"]) if marker["key"] == key else None
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(
            f"{warehouse.store.uri(name)}:1: not the marker of a finished stage; restore it from a copy, "
            "or delete it to do the stage again"
        ) from error


def is_done(warehouse: Warehouse, folder: Path) -> bool:
    """Whether the folder has the marker of a finished stage, with any key."""
    return warehouse.store.size(warehouse.name(folder / _MARKER)) is not None


def has_begun(warehouse: Warehouse, folder: Path) -> bool:
    """Whether a stage has stored anything, or has a folder on this machine."""
    return folder.exists() or bool(warehouse.store.files(warehouse.name(folder)))


def sweep(warehouse: Warehouse, folder: Path) -> None:
    """Remove the files of a finished stage except its marker; its rows are committed."""
    if not is_done(warehouse, folder):
        return
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != _MARKER:
            path.unlink()
    for file in leftovers(warehouse, folder):
        warehouse.store.delete(file.name)


def forget(warehouse: Warehouse, folder: Path) -> None:
    """Remove all that a stage has stored, so that it is done anew."""
    shutil.rmtree(folder, ignore_errors=True)
    for file in warehouse.store.files(warehouse.name(folder)):
        warehouse.store.delete(file.name)


def leftovers(warehouse: Warehouse, folder: Path) -> list[StoredFile]:
    """What is stored beside the marker of a finished stage; nothing for a stage that is not finished."""
    name = warehouse.name(folder)
    files = warehouse.store.files(name)
    marker = f"{name}/{_MARKER}"
    return [file for file in files if file.name != marker] if any(file.name == marker for file in files) else []


def open_for_append(path: Path, whole: int) -> int:
    """Open a journal for appending; everything after its first `whole` bytes, the complete records, is cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    os.ftruncate(descriptor, whole)
    os.lseek(descriptor, whole, os.SEEK_SET)
    return descriptor


def append_whole(descriptor: int, record: bytes) -> None:
    """Write a complete record, or leave the file unchanged and raise OSError."""
    start = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        left = memoryview(record)
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        os.ftruncate(descriptor, start)
        os.lseek(descriptor, start, os.SEEK_SET)
        raise
