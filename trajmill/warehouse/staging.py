"""Stores the progress of a stage: append-only journals, markers that are written after the work, and counts.

A journal survives `kill -9`: the operating system has each record before `append` returns, and incomplete records are
ignored. Counts only show progress to other processes: a file of one byte per item, so that an increment is one write.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, TypeVar

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.warehouse.atomic import disk_full_as_error, replacing
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.store.base import StoredFile, StoreError

MARKER = "done.json"
_PLANNED = "progress.total"
_COUNTED = "progress-{}.done"

T = TypeVar("T")


class AppendOnlyFile:
    """A file of records, written by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: int | None = None

    def close(self) -> None:
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None

    def _append(self, record: bytes, whole: Callable[[], int]) -> None:
        """Write a record after the first `whole()` bytes of the file, the complete records; the rest is cut off.

        Raises TrajmillError, changing nothing, if the disk is full.
        """
        with disk_full_as_error(self.path):
            if self._writer is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._writer = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
                os.ftruncate(self._writer, whole())
            start, left = os.fstat(self._writer).st_size, memoryview(record)
            try:
                while left:
                    left = left[os.write(self._writer, left) :]
            except OSError:
                os.ftruncate(self._writer, start)
                raise


class Journal(AppendOnlyFile):
    """An append-only file of JSON lines."""

    def append(self, record: bytes) -> None:
        """Add one line of JSON, without the newline. Raises TrajmillError, changing nothing, if the disk is full."""
        self._append(record + b"\n", lambda: sum(len(whole) + 1 for whole in self.read()))

    def read(self) -> Iterator[bytes]:
        """The complete records, oldest first, without their newlines; empty if there is no file."""
        if not self.path.exists():
            return
        with self.path.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield line[:-1]


class Progress(NamedTuple):
    done: int
    total: int | None


class ShardProgress:
    """Counts the finished items of one shard; a shard that is done again starts at 0."""

    def __init__(self, folder: Path, shard: str) -> None:
        self._file = folder / _COUNTED.format(shard)
        self.fill(0)

    def add(self, items: int = 1) -> None:
        self._change(lambda file: file.write(b"." * items))

    def fill(self, items: int) -> None:
        # ext4 flushes a file that was emptied and written when it is closed: 0.7 to 1.5 ms, not 0.02 ms.
        self._change(lambda file: file.truncate(items))

    def counted(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items; each counts once the next one is requested."""
        for item in items:
            yield item
            self.add()

    def _change(self, change: Callable[[BinaryIO], object]) -> None:
        # A full disk ends the stage where it writes rows, not here.
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("ab") as file:
                change(file)


def plan_items(folder: Path, total: int) -> None:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _PLANNED).write_text(str(total))


def forget_counts(folder: Path) -> None:
    """Remove the counts of an earlier process, some of whose items would be counted twice."""
    for file in folder.glob(_COUNTED.format("*")):
        file.unlink(missing_ok=True)


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


def mark_done(warehouse: Warehouse, folder: Path, key: str, result: Mapping[str, object]) -> dict[str, Any]:
    """Write the marker of a finished stage with a small JSON result, its last step; return the result as it is read."""
    marker = json.loads(json.dumps({"key": key, "result": result}))
    marker["sha256"] = content_id(marker)
    # Its journals are removed next: that must not reach the disk before the marker does.
    warehouse.store.put(warehouse.name(folder / MARKER), (json.dumps(marker, sort_keys=True) + "\n").encode())
    return dict(marker["result"])


def read_marker(warehouse: Warehouse, folder: Path, key: str) -> dict[str, Any] | None:
    """The result that `mark_done` wrote with this key, else None. Raises BadInputError if the marker is damaged."""
    marker = whole_marker(warehouse, warehouse.name(folder / MARKER))
    return dict(marker["result"]) if marker and marker["key"] == key else None


def whole_marker(warehouse: Warehouse, name: str) -> dict[str, Any] | None:
    written = warehouse.store.get(name)
    if written is None:
        return None
    try:
        marker: dict[str, Any] = json.loads(written)
        digest = marker.pop("sha256", None)
        # A marker of an earlier trajmill has no hash.
        if marker.keys() != {"key", "result"} or digest not in (None, content_id(marker)):
            raise ValueError
        return marker
    except (ValueError, TypeError, AttributeError) as error:
        raise BadInputError(
            f"{warehouse.store.uri(name)}:1: not the marker of a finished stage; restore it from a copy, "
            "or delete it to do the stage again"
        ) from error


def has_begun(warehouse: Warehouse, folder: Path) -> bool:
    """Whether a stage has stored anything, or has a folder on this machine."""
    return folder.exists() or bool(warehouse.store.files(warehouse.name(folder)))


def last_change(warehouse: Warehouse, folder: Path) -> float:
    """Return when something was stored in a folder last, here or elsewhere, in seconds since the epoch; else 0."""
    here = [folder.stat().st_mtime] if folder.exists() else []
    return max([*here, *(file.modified for file in warehouse.store.files(warehouse.name(folder)))], default=0.0)


def sweep(warehouse: Warehouse, folder: Path) -> None:
    """Remove the files of a finished stage except its marker; its rows are committed."""
    if unneeded := leftovers(warehouse, folder):
        warehouse.store.delete(*(file.name for file in unneeded))
        if not warehouse.store.is_local:
            shutil.rmtree(folder, ignore_errors=True)


def forget(warehouse: Warehouse, folder: Path) -> None:
    warehouse.store.delete(*(file.name for file in warehouse.store.files(warehouse.name(folder))))
    shutil.rmtree(folder, ignore_errors=True)


def leftovers(warehouse: Warehouse, folder: Path) -> list[StoredFile]:
    """What is stored beside the marker of a finished stage; nothing for a stage that is not finished."""
    name = warehouse.name(folder)
    files = warehouse.store.files(name)
    marker = f"{name}/{MARKER}"
    return [file for file in files if file.name != marker] if any(file.name == marker for file in files) else []


_PARTS = ".parts"
_COPIES = "stored"
"""Folder of the copies of journals of other workers."""


class JournalParts:
    """The parts of the journals of one shard, which are made what their parts are; first those that others refer to."""

    def __init__(self, warehouse: Warehouse, at: StageRun, journals: Sequence[Path]) -> None:
        self._warehouse = warehouse
        self._journals = journals
        self.are_needed = not warehouse.store.is_local
        if self.are_needed:
            parts = _parts(warehouse, at)
            for path in journals:
                # What a killed worker has left here and not stored was done elsewhere since, or is done again.
                path.unlink(missing_ok=True)
                _join(warehouse, parts.get(warehouse.name(path), ()), path)
        self._stored = dict(self.sizes())

    def sizes(self) -> Mapping[Path, int]:
        """Return the sizes of the journals; call it where nobody is appending, since parts end with whole records."""
        return {path: path.stat().st_size for path in self._journals if path.exists()} if self.are_needed else {}

    def publish(self, sizes: Mapping[Path, int] | None = None) -> None:
        """Store what the journals have grown to. Raises StoreError if another process works on the shard."""
        store = self._warehouse.store
        for path, size in (self.sizes() if sizes is None else sizes).items():
            start = self._stored.get(path, 0)
            if size > start:
                with path.open("rb") as file:
                    file.seek(start)
                    data = file.read(size - start)
                name = f"{self._warehouse.name(path)}{_PARTS}/{start:014d}"
                if not store.create(name, data):
                    raise StoreError(f"{store.uri(name)}: another process works on this shard; stop it")
                self._stored[path] = size


def stored_journals(warehouse: Warehouse, at: StageRun, pattern: str) -> list[Path]:
    """Find the journals of a stage by a pattern of names: in a folder themselves, else copies of what is stored."""
    staging = at.staging(warehouse)
    if warehouse.store.is_local:
        return sorted(staging.glob(pattern))
    copies = []
    for journal, parts in _parts(warehouse, at).items():
        copy = staging / _COPIES / PurePosixPath(journal).name
        if copy.match(pattern):
            if not copy.exists() or copy.stat().st_size != sum(part.size for part in parts):
                _join(warehouse, parts, copy)
            copies.append(copy)
    return sorted(copies)


def _parts(warehouse: Warehouse, at: StageRun) -> Mapping[str, Sequence[StoredFile]]:
    of_journal: dict[str, list[StoredFile]] = defaultdict(list)
    for file in warehouse.store.files(warehouse.name(at.staging(warehouse))):
        journal, found, _ = file.name.partition(f"{_PARTS}/")
        if found:
            of_journal[journal].append(file)
    return of_journal


def _join(warehouse: Warehouse, parts: Sequence[StoredFile], path: Path) -> None:
    if parts:
        with replacing(path) as temporary, temporary.open("wb") as whole:
            for part in parts:
                whole.write(warehouse.store.get(part.name) or b"")


class Durability(NamedTuple):
    """When finished episodes are stored, at the latest; a killed worker costs at most those that are not."""

    episodes: int = 16
    seconds: float = 30.0


@asynccontextmanager
async def stored_in_time(parts: JournalParts, bound: Durability) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Store what journals grow by within a bound; yield a function to call after each episode in the journals."""
    waiting = 0
    busy = asyncio.Lock()

    async def store(least: int) -> None:
        nonlocal waiting
        async with busy:
            # Whoever was busy before has stored the episodes of those that waited for it.
            if waiting >= least:
                waiting, sizes = 0, parts.sizes()
                await asyncio.to_thread(parts.publish, sizes)

    async def one_more() -> None:
        nonlocal waiting
        waiting += 1
        if waiting >= bound.episodes and parts.are_needed:
            await store(bound.episodes)

    async def regularly() -> None:
        while True:
            await asyncio.sleep(bound.seconds)
            await store(1)

    clock = asyncio.create_task(regularly())
    try:
        yield one_more
    finally:
        clock.cancel()
        async with busy:
            # A part that is being stored is stored whole.
            pass
    if clock.done() and not clock.cancelled():
        clock.result()
