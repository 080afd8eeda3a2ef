"""Makes a query set from the graphs of live apps; each query's path is really walked (GUI-Owl 6.2, step 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.queries.live.base import STAGE
from trajmill.stages.queries.live.divide import LiveCandidate, UnseenApps, candidates
from trajmill.stages.queries.live.drafting import draft_live
from trajmill.stages.queries.live.spec import LiveQueriesSpec
from trajmill.stages.queries.live.wording import LiveGrammar, LiveWriter
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


class LiveRequest(NamedTuple):
    """What is wanted."""

    graphs: tuple[AppGraph, ...]
    settings: LiveQueriesSpec
    unseen: UnseenApps
    seed: int
    """Decides on the values and on the wording."""


async def generate_live(request: LiveRequest, writer: LiveWriter, walk: WalkQueries, origin: Origin) -> NewQueries:
    """Make the queries of all splits; each has been walked, meets its goal, and does not meet it at the start.

    The grammar writes the queries for which the drafts of another writer are refused; the refusal is a failure.

    Args:
        request: the graphs, and how many queries.
        writer: the grammar or a language model.
        walk: walks the paths of queries.
        origin: common columns of the rows.
    """
    generation = _Generation(request, writer, walk, origin)
    wanted = {split: request.settings.wanted(split) for split in Split}
    for split, found in candidates(request.graphs, wanted, request.unseen, request.seed).items():
        await generation.fill(split, wanted[split], found)
    generation.drop_leaks(request.unseen)
    return NewQueries(tuple(generation.queries), tuple(generation.failures))


class _Generation:
    """Collects one query set."""

    def __init__(self, request: LiveRequest, writer: LiveWriter, walk: WalkQueries, origin: Origin) -> None:
        self._request, self._writer, self._walk, self._origin = request, writer, walk, origin
        self._index = InstructionIndex()
        self._walks: dict[str, bool] = {}
        """By goal and path, whether the walk passed; words make no difference to it."""
        self._refused: Counter[str] = Counter()
        self.queries: list[Query] = []
        self.failures: list[Failure] = []

    async def fill(self, split: Split, wanted: int, found: Iterator[LiveCandidate]) -> None:
        """Add `wanted` queries to a split, if there are so many candidates."""
        missing = wanted
        while missing and (batch := list(islice(self._open(found), min(missing, _AT_ONCE)))):
            drafts = [query for each in batch if (query := await self._draft(each)) is not None]
            passed = await self._walked(drafts)
            self.queries += passed
            missing -= len(passed)
        if missing:
            text = f"only {wanted - missing} of {wanted} queries: the graphs have no more goals for this split"
            self._fail(split.value, text, FailureClass.TASK)

    def drop_leaks(self, unseen: UnseenApps) -> None:
        """Drop held-out queries that share something with training."""
        leaks = {leak.heldout: leak.detail for leak in leaks_in_queries(self.queries, unseen.heldout)}
        self.queries = [query for query in self.queries if query.query_id not in leaks]
        for leaked, why in leaks.items():
            self._fail(leaked, why, FailureClass.TASK)

    def _open(self, found: Iterator[LiveCandidate]) -> Iterator[LiveCandidate]:
        return (each for each in found if self._refused[each.sample.task] < FAILURES_OF_TASK)

    async def _draft(self, candidate: LiveCandidate) -> Query | None:
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

    async def _written(self, candidate: LiveCandidate) -> Query | None:
        sample, split, heldout, turn = candidate
        seed = int(content_id("live", self._request.seed, sample.task, sample.key, split, turn), 16)
        grammar = LiveGrammar()
        for writer in dict.fromkeys((self._writer, grammar)):
            try:
                return await draft_live(sample, split, heldout, writer, self._origin, seed)
            except StageError as error:
                self._fail(sample.task, str(error), error.failure_class)
        return None

    async def _walked(self, drafts: Sequence[Query]) -> list[Query]:
        """The drafts whose path meets the goal; each path is walked once."""
        first = {_walk_key(query): query for query in reversed(drafts) if _walk_key(query) not in self._walks}
        walked = await self._walk(tuple(reversed(first.values())))
        passed = {query.query_id for query in walked.queries}
        self.failures += walked.failures
        for key, query in first.items():
            self._walks[key] = query.query_id in passed
            self._refused[query.task] += 1 if query.query_id not in passed else -FAILURES_OF_TASK
        return [query.model_copy(update={"validation": PASSED}) for query in drafts if self._walks[_walk_key(query)]]

    def _fail(self, input_id: str, message: str, failure_class: FailureClass) -> None:
        self.failures.append(
            Failure(
                stage=STAGE,
                input_id=input_id,
                failure_class=failure_class,
                message=message,
                attempts=1,
                **self._origin.common(made_by=self._writer.version),
            )
        )


def _walk_key(query: Query) -> str:
    path = [tuple(step.model_dump().values()) for step in query.path]
    return content_id("walk", query.start_state, query.goal, path)
