"""Starts drafts ahead of their turn, so that a model server has many requests in flight.

Drafts are taken in one fixed order; the number in flight changes only the duration.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from trajmill.schemas.errors import StageError
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.queries.graph.sampling import TaskSample


class DraftCandidate(NamedTuple):
    """A goal that may become a query."""

    task: TaskGraph
    sample: TaskSample
    split: Split
    heldout: bool
    """Whether a held-out phrasing is asked for."""
    turn: int
    """Number of earlier drafts of the same goal."""


class DraftResult(NamedTuple):
    """The draft of a candidate."""

    task: TaskGraph
    query: Query | StageError
    """The query, not yet checked for repetition and not yet walked; or the error."""
    refused: StageError | None = None
    """The error of the writer, if the stand-in wrote the query."""


class DraftQueue:
    """Drafts the candidates of one task for one split in order, some of them ahead."""

    def __init__(
        self, candidates: Iterator[DraftCandidate], draft: Callable[[DraftCandidate], Awaitable[DraftResult]]
    ) -> None:
        """Start no draft yet."""
        self._candidates, self._draft = candidates, draft
        self._ahead: deque[asyncio.Future[DraftResult]] = deque()

    def reach(self, count: int) -> None:
        """Start the drafts of the next `count` candidates, as far as there are any."""
        while len(self._ahead) < count:
            candidate = next(self._candidates, None)
            if candidate is None:
                return
            self._ahead.append(asyncio.ensure_future(self._draft(candidate)))

    async def take(self) -> DraftResult | None:
        """The next draft, None after the last; an error other than a `StageError` is raised here."""
        self.reach(1)
        return await self._ahead.popleft() if self._ahead else None

    async def stop(self) -> None:
        """Cancel the drafts that were started."""
        for draft in self._ahead:
            draft.cancel()
        await asyncio.gather(*self._ahead, return_exceptions=True)
        self._ahead.clear()


def start_ahead(lines: Sequence[DraftQueue], count: int) -> None:
    """Start the `count` drafts that will be taken next from these lines, if each of them becomes a query."""
    for number in range(count):
        lines[number % len(lines)].reach(number // len(lines) + 1)
