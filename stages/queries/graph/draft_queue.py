"""Drafts made ahead of their turn, so that a writer behind a server has many requests in flight.

Drafts are taken in one fixed order whatever is started early: how many are in flight decides nothing but the time.
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
    """What a query may be made of."""

    task: TaskGraph
    sample: TaskSample
    split: Split
    heldout: bool
    """Whether a held-out phrasing is asked for."""
    turn: int
    """How often the same goal was drafted before."""


class DraftResult(NamedTuple):
    """What came of a candidate."""

    task: TaskGraph
    query: Query | StageError
    """Still to be looked up and walked; or why there is none."""
    refused: StageError | None = None
    """Why the writer made no query, where its stand-in did."""


class DraftQueue:
    """The candidates of one task for one split, in order, the next of them being drafted already."""

    def __init__(
        self, candidates: Iterator[DraftCandidate], draft: Callable[[DraftCandidate], Awaitable[DraftResult]]
    ) -> None:
        """Nothing is drafted before it is asked for."""
        self._candidates, self._draft = candidates, draft
        self._ahead: deque[asyncio.Future[DraftResult]] = deque()

    def reach(self, count: int) -> None:
        """Have the next `count` candidates, as far as there are any, in the making."""
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
        """Give up what is in the making."""
        for draft in self._ahead:
            draft.cancel()
        await asyncio.gather(*self._ahead, return_exceptions=True)
        self._ahead.clear()


def start_ahead(lines: Sequence[DraftQueue], count: int) -> None:
    """Start the `count` drafts that will be taken next from these lines, if each of them becomes a query."""
    for number in range(count):
        lines[number % len(lines)].reach(number // len(lines) + 1)
