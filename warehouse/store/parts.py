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
from pathlib import Path
from typing import NamedTuple

from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.store.base import StoredFile, StoreError

_PARTS = ".parts"


class JournalParts:
    """The parts of the journals of one shard."""

    def __init__(self, warehouse: Warehouse, at: StageRun, journals: Sequence[Path]) -> None:
        """Make the journals what their parts say, before anybody opens them.

        Args:
            warehouse: where the parts are.
            at: the stage of the journals.
            journals: local paths in the order in which they are stored: first what the others refer to.
        """
        self._warehouse = warehouse
        self._journals = journals
        self._stored: dict[Path, int] = {}
        if not warehouse.store.is_local:
            for path in journals:
                # What a killed worker has left here and not stored was done elsewhere since, or is done again.
                path.unlink(missing_ok=True)
            restore_journals(warehouse, at)
            self._stored = dict(self.sizes())

    def sizes(self) -> Mapping[Path, int]:
        """The sizes of the journals now; call it where nobody is appending, since parts end with whole records."""
        if self._warehouse.store.is_local:
            return {}
        return {path: path.stat().st_size for path in self._journals if path.exists()}

    def publish(self, sizes: Mapping[Path, int]) -> None:
        """Store what the journals have grown to.

        Raises:
            StoreError: another process works on the shard, or the store does not answer.
        """
        for path, size in sizes.items():
            start = self._stored.get(path, 0)
            if size > start:
                with path.open("rb") as file:
                    file.seek(start)
                    data = file.read(size - start)
                name = f"{self._warehouse.name(path)}{_PARTS}/{start:014d}"
                if not self._warehouse.store.create(name, data):
                    raise StoreError(f"{self._warehouse.store.uri(name)}: another process works on this shard; stop it")
                self._stored[path] = size


def restore_journals(warehouse: Warehouse, at: StageRun) -> None:
    """Make the local journals of a stage as long as their parts."""
    if warehouse.store.is_local:
        return
    of_journal: dict[str, list[StoredFile]] = defaultdict(list)
    for file in warehouse.store.files(warehouse.name(at.staging(warehouse))):
        journal, found, _ = file.name.partition(f"{_PARTS}/")
        if found:
            of_journal[journal].append(file)
    for journal, parts in of_journal.items():
        path = warehouse.root / journal
        size = path.stat().st_size if path.exists() else 0
        if size < sum(part.size for part in parts):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as whole:
                for part in parts:
                    whole.write(warehouse.store.get(part.name) or b"")


class Durability(NamedTuple):
    """When finished episodes are stored; a worker that is killed costs at most those that are not."""

    episodes: int = 16
    """Episodes after which they are stored at the latest."""
    seconds: float = 30.0
    """Seconds after which they are stored at the latest."""


USUAL = Durability()


@asynccontextmanager
async def stored_in_time(parts: JournalParts, bound: Durability) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Store what journals grow by within a bound; gives a function to call after each episode in the journals."""
    waiting = 0
    busy = asyncio.Lock()

    async def store() -> None:
        nonlocal waiting
        async with busy:
            waiting, sizes = 0, parts.sizes()
            await asyncio.to_thread(parts.publish, sizes)

    async def one_more() -> None:
        nonlocal waiting
        waiting += 1
        if waiting >= bound.episodes:
            await store()

    async def regularly() -> None:
        while True:
            await asyncio.sleep(bound.seconds)
            await store()

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
