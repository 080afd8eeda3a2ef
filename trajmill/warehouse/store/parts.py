"""Stores what journals grow by, where workers have only a bucket in common.

A journal is a local file that only grows. Each part is a range of its bytes, named by the place where it begins, and is
only ever created; joined in order, the parts are the journal. In a folder there is nothing to do: a journal there is
stored as it grows.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from trajmill.warehouse.atomic import replacing
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.store.base import StoredFile, StoreError

_PARTS = ".parts"
_COPIES = "stored"
"""Folder of the copies of journals of other workers."""


class JournalParts:
    """The parts of the journals of one shard.

    `journals` are local paths in the order in which they are stored: first those that the others refer to. Before
    anybody opens them, they are made what their parts are.
    """

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
    """Find the journals of a stage whose names match a pattern: in a folder themselves, else copies of what is stored.

    What another worker on this machine has not stored yet is not in them.
    """
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
    """Return the parts of each journal of a stage in their order, by the journal's name."""
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
