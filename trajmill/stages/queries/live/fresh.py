"""Adds new training queries to a run from the graphs of live apps: other values, goals and phrasings, really walked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from trajmill.schemas.errors import StageError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.graphs.file import read_graph
from trajmill.stages.queries.graph.fresh import FreshRequest
from trajmill.stages.queries.live.divide import UnseenApps, candidates
from trajmill.stages.queries.live.filling import WalkQueries
from trajmill.stages.queries.live.generate import drafted
from trajmill.stages.queries.live.spec import LiveQueriesSpec
from trajmill.stages.queries.live.walking import QueryWalker
from trajmill.stages.queries.live.wording import LiveGrammar
from trajmill.stages.queries.taken import TakenQueries

CandidateT = TypeVar("CandidateT")
_DRAWS_PER_QUERY = 60
"""Candidates that are looked at for each wanted query; then there are no more new ones."""
_AT_ONCE = 16


async def fresh_from_graphs(
    settings: LiveQueriesSpec,
    unseen: UnseenApps,
    environment: EnvironmentSpec,
    instances: int,
    known: Collection[Query],
    request: FreshRequest,
    origin: Origin,
) -> tuple[Query, ...]:
    """New training queries from graphs, at most `request.wanted`; each has been walked.

    Args:
        settings: the files of the graphs.
        unseen: apps that training never sees.
        environment: where the queries are walked.
        instances: environments that walk at the same time.
        known: all queries of the run.
        request: how many, and how hard.
        origin: common columns of the rows.

    Raises:
        BadInputError: a file is no graph.
    """
    graphs, wanted = tuple(map(read_graph, settings.files)), dict.fromkeys(Split, 0)
    found = candidates(graphs, wanted, unseen, request.seed)[Split.TRAIN]
    walker = QueryWalker(environment, instances, origin)
    try:
        return await fresh_walked(
            found, partial(drafted, LiveGrammar(), request.seed, origin), walker.walk, known, request
        )
    finally:
        await walker.close()


async def fresh_walked(
    found: Iterator[CandidateT],
    draft: Callable[[CandidateT], Awaitable[Query]],
    walk: WalkQueries,
    known: Collection[Query],
    request: FreshRequest,
) -> tuple[Query, ...]:
    """The first new queries of some candidates that pass their walk.

    Args:
        found: the candidates.
        draft: writes the query of a candidate, or raises a `StageError`.
        walk: walks the paths of queries.
        known: all queries of the run; what is held out there is not trained on.
        request: how many, and how hard.
    """
    taken = TakenQueries(known)
    bounded = islice(found, _DRAWS_PER_QUERY * request.wanted)
    added: list[Query] = []
    while (missing := request.wanted - len(added)) > 0:
        drafts: list[Query] = []
        for candidate in bounded:
            query = await _drafted_or_none(draft, candidate)
            if query is not None and query.difficulty <= request.level and taken.allows(query):
                taken.add(query)
                drafts.append(query)
            if len(drafts) == min(missing, _AT_ONCE):
                break
        if not drafts:
            break
        added += (await walk(drafts)).queries
    return tuple(added)


async def _drafted_or_none(draft: Callable[[CandidateT], Awaitable[Query]], candidate: CandidateT) -> Query | None:
    try:
        return await draft(candidate)
    except StageError:
        return None
