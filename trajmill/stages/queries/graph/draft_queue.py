"""Starts drafts before they are needed, so that a model server has many requests at the same time.

Drafts are taken in a fixed order; the number of drafts at the same time changes only the duration.
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
    """Number of drafts of the same goal before this one."""


class DraftResult(NamedTuple):
    """The draft of a candidate."""

    task: TaskGraph
    query: Query | StageError
    """The query, not yet walked or compared with other queries; or the error."""
    refused: StageError | None = None
    """The error of the writer, if the stand-in wrote the query."""


class DraftQueue:
    """Drafts the candidates of one task for one split in order; some drafts are started early."""

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


def start_ahead(queues: Sequence[DraftQueue], count: int) -> None:
    """Start the next `count` drafts of the queues, assuming that each becomes a query."""
    for number in range(count):
        queues[number % len(queues)].reach(number // len(queues) + 1)
