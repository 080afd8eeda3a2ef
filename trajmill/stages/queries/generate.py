"""Make queries of candidates: word them, walk them, and keep what is new and leaks nothing (GUI-Owl 6.2)."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from itertools import islice, zip_longest
from typing import NamedTuple

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import PASSED, PathStep, Query, Split
from trajmill.stages.models.spec import Endpoint
from trajmill.stages.queries.base import (
    Candidate,
    DraftRefused,
    FreshRequest,
    GrammarWriter,
    NewQueries,
    Offer,
    QuerySource,
    QueryWriter,
    SourceContext,
    WalkQueries,
    draft,
    failure,
)
from trajmill.stages.queries.leaks import LeakIndex, Novelty, leaks_in_queries
from trajmill.stages.queries.model_writer import ModelWriter
from trajmill.stages.queries.walk import QueryWalker
from trajmill.stages.queries.written import QueryPrompts

FAILURES_IN_A_ROW = 3
"""After so many failures in a row a task gives no more queries."""
_AT_ONCE = 16
"""Most queries that are walked before failures are counted."""
_SPARE = 3
"""Candidates that are compared for each fresh query; the hardest are kept."""
_DRAWS_PER_QUERY = 60

_WalkKey = tuple[str, str, tuple[PathStep, ...]]
"""Start state, goal and path of a query."""


class WriterModel(NamedTuple):
    model: Endpoint
    prompts: QueryPrompts
    in_flight: int


async def make_queries(
    sources: Sequence[QuerySource], context: SourceContext, model: WriterModel | None = None
) -> NewQueries:
    """Make the queries of all splits; each is walked, meets its goal, and shares nothing across splits.

    The grammar words what the model's drafts are refused for; each refusal is a failure. Raises BadInputError if a file
    of a source is wrong, or the model cannot be connected.
    """
    calls: list[ModelCall] = []
    opened = model.model.open(context.origin, calls.append) if model else None
    walker = QueryWalker(context.environment.factory, context.instances, context.origin)
    try:
        own = [ModelWriter(opened, model.prompts)] if opened and model else []
        made = QuerySet([*own, GrammarWriter()], context.origin, in_flight=model.in_flight if model else 1)
        for source in sources:
            offer = await source.candidates(context)
            calls += offer.model_calls
            await made.take(offer, walker.walk)
        return made.without_leaks(context.unseen.heldout)._replace(model_calls=tuple(calls))
    finally:
        await walker.close()
        if opened is not None:
            await opened.close()


async def fresh_queries(
    sources: Sequence[QuerySource], context: SourceContext, request: FreshRequest, known: Collection[Query]
) -> tuple[Query, ...]:
    """Make new walked training queries, at most `request.wanted`, none with a goal or words that `known` holds out.

    Each source makes up for what those before it lack. Raises BadInputError if a file of a source is wrong.
    """
    walker = QueryWalker(context.environment.factory, context.instances, context.origin)
    added = QuerySet([GrammarWriter()], context.origin, known)
    try:
        for left, source in zip(range(len(sources), 0, -1), sources, strict=True):
            share = request._replace(wanted=-(-(request.wanted - len(added.queries)) // left))
            offer = await source.candidates(context._replace(fresh=share))
            streams = [stream for each in offer.splits if each.split is Split.TRAIN for stream in each.streams]
            await added.add_fresh(share, in_turn(streams), offer.walk or walker.walk)
    finally:
        await walker.close()
    return tuple(added.queries)


async def unwalked_queries(source: QuerySource, context: SourceContext) -> NewQueries:
    offer, writer = await source.candidates(context), GrammarWriter()
    candidates = (each for split in offer.splits for each in in_turn(split.streams))
    queries = [await draft(each, writer, context.origin) for each in candidates]
    return NewQueries(tuple(queries), offer.failures, offer.model_calls)


class QuerySet:
    """The queries made so far, and those of the run that they must differ from."""

    def __init__(
        self, writers: Sequence[QueryWriter], origin: Origin, known: Collection[Query] = (), in_flight: int = 1
    ) -> None:
        self._writers, self._origin, self._in_flight = writers, origin, in_flight
        self._index = LeakIndex(known)
        self._walks: dict[_WalkKey, bool] = {}
        self._failed_in_a_row: Counter[str] = Counter()
        self.queries: list[Query] = []
        self.failures: list[Failure] = []

    async def take(self, offer: Offer, walk: WalkQueries) -> None:
        """Make the queries of an offer, task by task in turn; `walk` is for one that has no walk of its own."""
        self.failures += offer.failures
        for offered in offer.splits:
            missing = sys.maxsize if offered.wanted is None else offered.wanted
            open_streams = (filter(lambda each: self._is_open(each.goal.task), stream) for stream in offered.streams)
            queues = deque(_DraftQueue(stream, self._draft) for stream in open_streams)
            try:
                while batch := await self._next_batch(queues, missing):
                    missing -= await self._add_walked(batch, offer.walk or walk)
            finally:
                for queue in queues:
                    await queue.stop()
            if offered.wanted is not None and missing:
                found = offered.wanted - missing
                why = f"there are no more goals{offer.note and f' ({offer.note})'}"
                self._fail(offered.split, f"only {found} of {offered.wanted} queries: {why}")

    async def add_fresh(self, request: FreshRequest, candidates: Iterator[Candidate], walk: WalkQueries) -> None:
        """Add training queries of at most the wanted level; the hardest and new goals come first."""
        missing, bounded = request.wanted, islice(candidates, _DRAWS_PER_QUERY * request.wanted)
        while missing and (window := list(islice(bounded, _SPARE * request.wanted))):
            drafts = [(await self._draft(each)).query for each in window]
            fitting = [query for query in drafts if query and query.difficulty <= request.level]
            fitting.sort(key=lambda query: (-query.difficulty, self._index.has_goal(query)))
            new = (query for query in fitting if self._index.admit(query) is Novelty.NEW)
            while missing and (batch := list(islice(new, min(missing, _AT_ONCE)))):
                missing -= await self._add_walked(batch, walk)

    def without_leaks(self, unseen: Collection[str]) -> NewQueries:
        """Return the queries; each one that leaks becomes a failure."""
        ids = {query.query_id for query in self.queries}
        leaks = {
            leak.heldout if leak.heldout in ids else leak.found_in: leak.detail
            for leak in leaks_in_queries(self.queries, unseen)
        }
        for leaked, why in leaks.items():
            self._fail(leaked, why)
        kept = tuple(query for query in self.queries if query.query_id not in leaks)
        return NewQueries(kept, tuple(self.failures))

    def _is_open(self, task: str) -> bool:
        return self._failed_in_a_row[task] < FAILURES_IN_A_ROW

    async def _next_batch(self, queues: deque[_DraftQueue], missing: int) -> list[Query]:
        batch: list[Query] = []
        while queues and len(batch) < min(missing, _AT_ONCE):
            # Start the next drafts, assuming that each becomes a query.
            for number in range(min(self._in_flight, missing - len(batch))):
                queues[number % len(queues)].reach(number // len(queues) + 1)
            drafted = await queues[0].take()
            if drafted is None:
                queues.popleft()
            elif self._is_open(drafted.task) and (query := self._admitted(drafted)):
                batch.append(query)
                queues.rotate(-1)
        return batch

    async def _draft(self, candidate: Candidate) -> _Drafted:
        drafted = _Drafted(candidate.goal.task)
        for writer in self._writers:
            try:
                return drafted._replace(query=await draft(candidate, writer, self._origin))
            except StageError as error:
                drafted = drafted._replace(errors=(*drafted.errors, error))
        return drafted

    def _admitted(self, drafted: _Drafted) -> Query | None:
        """Return the query of a draft if it is new; a draft that failed or is ambiguous is recorded."""
        task, query, errors = drafted
        for error in errors:
            self._fail(task, str(error), error.failure_class, error.attempts if isinstance(error, DraftRefused) else 1)
        novelty = self._index.admit(query) if query is not None else None
        if novelty is Novelty.NEW:
            return query
        if novelty is not Novelty.REPEATED:
            self._failed_in_a_row[task] += 1
            if query is not None and novelty is not None:
                self._fail(query.query_id, f"{task}: {novelty.value}: {query.instruction}")
        return None

    async def _add_walked(self, drafts: Sequence[Query], walk: WalkQueries) -> int:
        """Add the drafts whose path meets the goal, and return their number; each path is walked once."""
        keys = [(query.start_state, query.goal, query.path) for query in drafts]
        first: dict[_WalkKey, Query] = {}
        for key, query in zip(keys, drafts, strict=True):
            if key not in self._walks:
                first.setdefault(key, query)
        walked = await walk(tuple(first.values()))
        passed = {query.query_id for query in walked.queries}
        self.failures += walked.failures
        for key, query in first.items():
            self._walks[key] = query.query_id in passed
            self._failed_in_a_row[query.task] = 0 if self._walks[key] else self._failed_in_a_row[query.task] + 1
        met = [query for key, query in zip(keys, drafts, strict=True) if self._walks[key]]
        self.queries += [query.model_copy(update={"validation": PASSED}) for query in met]
        return len(met)

    def _fail(self, input_id: str, message: str, of: FailureClass = FailureClass.TASK, attempts: int = 1) -> None:
        self.failures.append(failure(input_id, message, self._origin, self._writers[0].version, of, attempts))


def in_turn(streams: Sequence[Iterator[Candidate]]) -> Iterator[Candidate]:
    return (candidate for turn in zip_longest(*streams) for candidate in turn if candidate is not None)


class _Drafted(NamedTuple):
    task: str
    query: Query | None = None
    errors: tuple[StageError, ...] = ()


class _DraftQueue:
    """Drafts the candidates of a stream in order, some ahead to keep a model server busy; changes only the duration."""

    def __init__(self, candidates: Iterator[Candidate], draft: Callable[[Candidate], Awaitable[_Drafted]]) -> None:
        self._candidates, self._draft = candidates, draft
        self._ahead: deque[asyncio.Future[_Drafted]] = deque()

    def reach(self, count: int) -> None:
        while len(self._ahead) < count and (candidate := next(self._candidates, None)) is not None:
            self._ahead.append(asyncio.ensure_future(self._draft(candidate)))

    async def take(self) -> _Drafted | None:
        """Return the next draft, None after the last; raises an error of a draft that is no `StageError`."""
        self.reach(1)
        return await self._ahead.popleft() if self._ahead else None

    async def stop(self) -> None:
        for each in self._ahead:
            each.cancel()
        await asyncio.gather(*self._ahead, return_exceptions=True)
