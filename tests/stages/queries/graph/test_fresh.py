"""New queries for a run from graphs: other goals and words than the run has, nothing that is held out, all walked."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from tests.stages.queries.graph.shop import LIST
from tests.stages.queries.graph.test_generate import CountedWalk, made_of
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.simulated.spec import SimulatedSpec
from trajmill.stages.queries.base import FreshRequest, GrammarWriter, SourceContext, UnseenApps
from trajmill.stages.queries.generate import QuerySet, in_turn
from trajmill.stages.queries.graph.source import GraphSource
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.spec import GraphSourceSpec


def fresh(known: Collection[Query], walk: CountedWalk, wanted: int, origin: Origin) -> tuple[Query, ...]:
    request = FreshRequest(wanted, 3, 11)

    async def made() -> tuple[Query, ...]:
        context = SourceContext(SimulatedSpec(), UnseenApps(), 0, origin, fresh=request)
        offer = await GraphSource((LIST,), dict.fromkeys(Split, 0)).candidates(context)
        added = QuerySet([GrammarWriter()], origin, known)
        train = next(each for each in offer.splits if each.split is Split.TRAIN)
        await added.add_fresh(request, in_turn(train.streams), walk)
        return tuple(added.queries)

    return asyncio.run(made())


def test_new_queries_are_new_and_show_nothing_that_is_held_out(origin: Origin) -> None:
    known = made_of(LIST, CountedWalk(), origin, GraphSourceSpec(train=4, heldout_slots=3, heldout_phrasings=3)).queries
    added = fresh(known, CountedWalk(), 6, origin)
    assert len(added) == 6 and {query.split for query in added} == {Split.TRAIN}
    texts = {query.instruction for query in known}
    assert not texts & {query.instruction for query in added}
    assert leaks_in_queries((*known, *added), ()) == ()


def test_more_than_there_is_ends_and_refused_walks_give_nothing(origin: Origin) -> None:
    walk = CountedWalk("options")
    added = fresh((), walk, 500, origin)
    assert 0 < len(added) < 500 and 0 < walk.walked < 500
    assert not [query for query in added if "options" in query.pages[-1]]
