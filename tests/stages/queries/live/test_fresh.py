"""New queries for a run from graphs: other goals and words than the run has, nothing that is held out, all walked."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial

from tests.stages.queries.live.shop import LIST
from tests.stages.queries.live.test_generate import CountedWalk, made_of
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.queries.graph.fresh import FreshRequest
from trajmill.stages.queries.live.divide import UnseenApps, candidates
from trajmill.stages.queries.live.fresh import fresh_walked
from trajmill.stages.queries.live.generate import drafted
from trajmill.stages.queries.live.spec import LiveQueriesSpec
from trajmill.stages.queries.live.wording import LiveGrammar
from trajmill.stages.queries.split_leaks import leaks_in_queries


def fresh(known: Collection[Query], walk: CountedWalk, wanted: int, origin: Origin) -> tuple[Query, ...]:
    request = FreshRequest(wanted, 3, 11)
    found = candidates((LIST,), dict.fromkeys(Split, 0), UnseenApps(), request.seed)[Split.TRAIN]
    draft = partial(drafted, LiveGrammar(), request.seed, origin)
    return asyncio.run(fresh_walked(found, draft, walk, known, request))


def test_new_queries_are_new_and_show_nothing_that_is_held_out(origin: Origin) -> None:
    known = made_of(LIST, CountedWalk(), origin, LiveQueriesSpec(train=4, heldout_slots=3, heldout_phrasings=3)).queries
    added = fresh(known, CountedWalk(), 6, origin)
    assert len(added) == 6 and {query.split for query in added} == {Split.TRAIN}
    texts = {query.instruction for query in known}
    assert not texts & {query.instruction for query in added}
    assert leaks_in_queries((*known, *added), ()) == ()


def test_more_than_there_is_ends_and_refused_walks_give_nothing(origin: Origin) -> None:
    walk = CountedWalk("options")
    added = fresh((), walk, 500, origin)
    assert 0 < len(added) < walk.walked < 500
    assert not [query for query in added if "options" in query.pages[-1]]
