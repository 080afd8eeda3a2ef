"""Fills the splits of a query set with candidates from graphs, each of which is really walked (GUI-Owl 6.2, step 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.queries.live.base import STAGE
from trajmill.stages.queries.new_queries import NewQueries
from trajmill.stages.queries.novelty import InstructionIndex, Novelty
from trajmill.stages.queries.real_walk import PASSED, WalkedQueries
from trajmill.stages.queries.split_leaks import leaks_in_queries

FAILURES_OF_TASK = 3
"""After so many refused walks, and none that passed, a task gives no more queries."""
_AT_ONCE = 16
"""Most queries that are walked before the refusals are counted."""

WalkQueries = Callable[[Sequence[Query]], Awaitable[WalkedQueries]]
"""Walks the paths of queries in the live environment."""


class Candidate(Protocol):
    """A query that may be made."""

    @property
    def task(self) -> str:
        """Name of its task."""
        ...


CandidateT = TypeVar("CandidateT", bound=Candidate)


class SplitFilling(Generic[CandidateT]):
    """Collects one query set; each query has been walked, meets its goal, and does not meet it at the start."""

    def __init__(
        self,
        drafts: Sequence[Callable[[CandidateT], Awaitable[Query]]],
        walk: WalkQueries,
        made_by: str,
        origin: Origin,
    ) -> None:
        """Begin without queries.

        Args:
            drafts: write the query of a candidate; the next one is asked where one raises a `StageError`.
            walk: walks the paths of queries.
            made_by: the version of the writer, for failures.
            origin: common columns of the rows.
        """
        self._drafts, self._walk, self._made_by, self._origin = drafts, walk, made_by, origin
        self._index = InstructionIndex()
        self._walks: dict[str, bool] = {}
        """By goal and path, whether the walk passed; words make no difference to it."""
        self._refused: Counter[str] = Counter()
        self._queries: list[Query] = []
        self._failures: list[Failure] = []

    async def fill(self, split: Split, wanted: int, found: Iterator[CandidateT]) -> None:
        """Add `wanted` queries to a split, if there are so many candidates."""
        missing = wanted
        while missing and (batch := list(islice(self._open(found), min(missing, _AT_ONCE)))):
            drafts = [query for each in batch if (query := await self._draft(each)) is not None]
            passed = await self._walked(drafts)
            self._queries += passed
            missing -= len(passed)
        if missing:
            text = f"only {wanted - missing} of {wanted} queries: the graphs have no more goals for this split"
            self._fail(split.value, text, FailureClass.TASK)

    def without_leaks(self, unseen: Collection[str]) -> NewQueries:
        """The query set without held-out queries that share something with training.

        Args:
            unseen: apps that training never sees.
        """
        leaks = {leak.heldout: leak.detail for leak in leaks_in_queries(self._queries, unseen)}
        for leaked, why in leaks.items():
            self._fail(leaked, why, FailureClass.TASK)
        kept = tuple(query for query in self._queries if query.query_id not in leaks)
        return NewQueries(kept, tuple(self._failures))

    def _open(self, found: Iterator[CandidateT]) -> Iterator[CandidateT]:
        return (each for each in found if self._refused[each.task] < FAILURES_OF_TASK)

    async def _draft(self, candidate: CandidateT) -> Query | None:
        """A new query; None if it repeats one, or cannot be written."""
        query = await self._written(candidate)
        if query is None:
            return None
        novelty = self._index.novelty_of(query)
        if novelty is not Novelty.NEW:
            if novelty is not Novelty.REPEATED:
                self._fail(query.query_id, f"{query.task}: {novelty.value}: {query.instruction}", FailureClass.TASK)
            return None
        self._index.add(query)
        return query

    async def _written(self, candidate: CandidateT) -> Query | None:
        for draft in self._drafts:
            try:
                return await draft(candidate)
            except StageError as error:
                self._fail(candidate.task, str(error), error.failure_class)
        return None

    async def _walked(self, drafts: Sequence[Query]) -> list[Query]:
        """The drafts whose path meets the goal; each path is walked once."""
        first = {_walk_key(query): query for query in reversed(drafts) if _walk_key(query) not in self._walks}
        walked = await self._walk(tuple(reversed(first.values())))
        passed = {query.query_id for query in walked.queries}
        self._failures += walked.failures
        for key, query in first.items():
            self._walks[key] = query.query_id in passed
            self._refused[query.task] += 1 if query.query_id not in passed else -FAILURES_OF_TASK
        return [query.model_copy(update={"validation": PASSED}) for query in drafts if self._walks[_walk_key(query)]]

    def _fail(self, input_id: str, message: str, failure_class: FailureClass) -> None:
        self._failures.append(
            Failure(
                stage=STAGE,
                input_id=input_id,
                failure_class=failure_class,
                message=message,
                attempts=1,
                **self._origin.common(made_by=self._made_by),
            )
        )


def _walk_key(query: Query) -> str:
    path = [tuple(step.model_dump().values()) for step in query.path]
    return content_id("walk", query.start_state, query.goal, path)
