"""The queue of a stage's attempts: workers take ranges of it until none is left."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import TypeAdapter

from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.rollout.base import Attempt
from trajmill.warehouse.layout import Warehouse

_RANGES_PER_WORKER = 8
"""Least ranges per worker: all workers end at nearly the same time."""
_MOST_IN_FILE = 1000
_ATTEMPT = TypeAdapter(Attempt)

AttemptKey = tuple[str, Purpose, int, int, str | None]


def attempt_key(attempt: Attempt) -> AttemptKey:
    """What tells the attempts of a stage apart."""
    guidance_id = attempt.guidance.guidance_id if attempt.guidance else None
    return attempt.query.query_id, attempt.purpose, attempt.attempt, attempt.seed, guidance_id


class AttemptQueue(NamedTuple):
    """The stored attempts at queries of one platform."""

    warehouse: Warehouse
    platform: Platform
    folder: str
    """Its name in the store: files of attempts as JSON lines, and a claim for each range that a worker took."""
    attempts: int
    in_range: int
    """Attempts in a range; a file has whole ranges."""

    @property
    def in_file(self) -> int:
        """Attempts in a file."""
        return max(1, _MOST_IN_FILE // self.in_range) * self.in_range

    @property
    def ranges(self) -> int:
        """How many ranges there are."""
        return -(-self.attempts // self.in_range)

    def file(self, number: int) -> str:
        """The name of a file."""
        return f"{self.folder}/attempts-{number:06d}.jsonl"


def queue_attempts(
    warehouse: Warehouse,
    folder: str,
    platform: Platform,
    attempts: Sequence[Attempt],
    *,
    workers: int,
    concurrency: int,
) -> AttemptQueue:
    """Store attempts at queries of one platform for workers to take.

    Args:
        warehouse: where they are stored.
        folder: a name in the store that no other queue has.
        platform: that of all the queries.
        attempts: at least one.
        workers: how many take from the queue.
        concurrency: slots of each worker.
    """
    in_range = max(1, min(concurrency // 2, len(attempts) // (workers * _RANGES_PER_WORKER)))
    queue = AttemptQueue(warehouse, platform, folder, len(attempts), in_range)
    for number, start in enumerate(range(0, len(attempts), queue.in_file)):
        lines = map(_ATTEMPT.dump_json, attempts[start : start + queue.in_file])
        warehouse.store.put(queue.file(number), b"\n".join(lines))
    return queue


class QueuedAttempts:
    """A worker's end of a queue: takes the next free range when its slots have no attempts left."""

    def __init__(self, queue: AttemptQueue) -> None:
        self._queue = queue
        self._next_range = 0
        self._taken: deque[bytes] = deque()
        """Parsed one by one: to parse a whole range at once would hold up all slots that wait for it."""
        self._file: tuple[int, list[bytes]] = -1, []
        self._empty = False
        self._asking = asyncio.Lock()

    async def take(self) -> Attempt | None:
        """The next attempt that nobody has taken; None if there is none left."""
        # Whoever finds an attempt does not wait for the lock: of many free slots, each would get it one turn of the
        # event loop after the other.
        while not self._taken and not self._empty:
            async with self._asking:
                if not self._taken and not self._empty:
                    self._taken.extend(await self._range())
                    self._empty = not self._taken
        return _ATTEMPT.validate_json(self._taken.popleft()) if self._taken else None

    async def _range(self) -> list[bytes]:
        # A thread gets its turns from a busy event loop so late that a millisecond's work takes it 100 and more.
        is_local = self._queue.warehouse.store.is_local
        return self._take_range() if is_local else await asyncio.to_thread(self._take_range)

    def _take_range(self) -> list[bytes]:
        while self._next_range < self._queue.ranges:
            number, self._next_range = self._next_range, self._next_range + 1
            if self._queue.warehouse.store.claim(f"{self._queue.folder}/taken-{number:06d}"):
                return self._lines(number * self._queue.in_range)
        return []

    def _lines(self, start: int) -> list[bytes]:
        file, place = divmod(start, self._queue.in_file)
        if self._file[0] != file:
            self._file = file, (self._queue.warehouse.store.get(self._queue.file(file)) or b"").split(b"\n")
        return self._file[1][place : place + self._queue.in_range]
