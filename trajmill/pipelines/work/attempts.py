"""Plans attempts into a staged list, from which worker processes take ranges until none is left."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from trajmill.pipelines.work.lists import WorkRange, list_work, read_range
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.rollout.base import Attempt
from trajmill.warehouse.layout import StageRun, Warehouse

_RANGES_PER_WORKER = 8
"""At least so many ranges for each worker, so that all end at nearly the same time."""


def attempt_to_text(attempt: Attempt) -> str:
    """An attempt as JSON."""
    guidance = attempt.guidance and attempt.guidance.model_dump(mode="json")
    query = attempt.query.model_dump(mode="json")
    return json.dumps([query, attempt.purpose, attempt.attempt, attempt.seed, guidance])


def attempt_from_text(text: str) -> Attempt:
    """What `attempt_to_text` has written."""
    query, purpose, number, seed, guidance = json.loads(text)
    hints = guidance and Guidance.model_validate(guidance)
    return Attempt(Query.model_validate(query), Purpose(purpose), number, seed, hints)


def attempt_key(attempt: Attempt) -> tuple[str, Purpose, int, int, str | None]:
    """What tells the attempts of a stage apart."""
    guidance_id = attempt.guidance.guidance_id if attempt.guidance else None
    return attempt.query.query_id, attempt.purpose, attempt.attempt, attempt.seed, guidance_id


class AttemptQueue(NamedTuple):
    """Names the attempts at queries of one platform that workers take ranges of."""

    platform: Platform
    file: str
    """The staged list."""
    ranges: int
    claims: str
    """Folder below the stage's staging folder where each taken range has a file, made by the worker that took it."""


def queue_attempts(
    warehouse: Warehouse,
    at: StageRun,
    platform: Platform,
    attempts: Sequence[Attempt],
    claims: str,
    *,
    workers: int,
    concurrency: int,
) -> AttemptQueue:
    """List the attempts at queries of one platform; a range is some that a worker takes when a slot is free.

    Args:
        warehouse: where the list is.
        at: the stage.
        platform: that of all the queries.
        attempts: at least one.
        claims: name that no other queue of the platform has.
        workers: how many take from it.
        concurrency: slots of each worker.
    """
    most = max(1, min(concurrency // 2, len(attempts) // (workers * _RANGES_PER_WORKER)))
    ranges = list_work(warehouse, at, attempts, _names, workers=1, most=most, encode=attempt_to_text)
    return AttemptQueue(platform, ranges[0].file, len(ranges), f"{claims}-{platform}")


class QueuedAttempts:
    """The attempts of a queue as one worker gets them: it takes the next free range when its slots have none left."""

    def __init__(self, warehouse: Warehouse, at: StageRun, queue: AttemptQueue) -> None:
        """Begin at the first range."""
        self._warehouse, self._at, self._queue = warehouse, at, queue
        self._next_range = 0
        self._taken: deque[str] = deque()
        """As texts: to read a range's attempts at once would hold up all slots that wait for them."""
        self._empty = False
        self._asking = asyncio.Lock()

    async def take(self) -> Attempt | None:
        """The next attempt that nobody has taken; None if there is none left."""
        # Whoever finds an attempt does not queue for it: where many slots are free at once, each would get it one turn
        # of the event loop after the other.
        while not self._taken and not self._empty:
            async with self._asking:
                if not self._taken and not self._empty:
                    self._taken.extend(await self._range())
                    self._empty = not self._taken
        return attempt_from_text(self._taken.popleft()) if self._taken else None

    async def _range(self) -> list[str]:
        # A thread gets its turns from a busy event loop so late that a millisecond's work takes it 100 and more.
        return self._take_range() if self._warehouse.store.is_local else await asyncio.to_thread(self._take_range)

    def _take_range(self) -> list[str]:
        folder = self._warehouse.name(self._at.staging(self._warehouse) / self._queue.claims)
        while self._next_range < self._queue.ranges:
            number, self._next_range = self._next_range, self._next_range + 1
            if self._warehouse.store.claim(f"{folder}/{number:06d}"):
                piece = WorkRange(self._queue.file, number, "")
                return read_range(self._warehouse, self._at, piece)
        return []


def _names(attempts: Sequence[Attempt]) -> object:
    return [attempt_key(attempt) for attempt in attempts]
