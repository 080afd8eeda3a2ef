"""Query sets from graphs: splits, walks that fail, and walks in a simulated app."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence

from tests.stages.queries.graph.shop import LIST
from tests.stages.queries.samples import made_by
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.environments.simulated.environment import SimulatedFactory
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.queries.base import FreshRequest, GrammarWriter, NewQueries, SourceContext, UnseenApps, WalkQueries
from trajmill.stages.queries.generate import QuerySet, in_turn
from trajmill.stages.queries.graph.source import GraphSource
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.spec import GraphSourceSpec
from trajmill.stages.queries.walk import walk_all

WANTED = GraphSourceSpec(train=12, validation=2, heldout_slots=2, heldout_phrasings=2)


class CountedWalk:
    """Passes every path, except those through some page."""

    def __init__(self, refused: str = "no page") -> None:
        self.refused, self.walked = refused, 0

    async def __call__(self, queries: Sequence[Query]) -> NewQueries:
        self.walked += len(queries)
        return NewQueries(tuple(query for query in queries if self.refused not in query.pages[-1]))


def made_of(graph: AppGraph, walk: WalkQueries, origin: Origin, settings: GraphSourceSpec = WANTED) -> NewQueries:
    source = GraphSource((graph,), {split: settings.wanted(split) for split in Split})
    return made_by(source, walk, origin, UnseenApps(heldout=("away",)))


def test_equal_seeds_give_equal_queries_and_a_path_is_walked_once(origin: Origin) -> None:
    first, second = CountedWalk(), CountedWalk()
    made = made_of(LIST, first, origin)
    assert made == made_of(LIST, second, origin)
    assert len({(query.goal, query.path) for query in made.queries}) == first.walked == second.walked < 16
    assert {query.validation for query in made.queries} == {"passed"}
    assert sum(query.split is Split.TRAIN for query in made.queries) == 12


def test_a_task_whose_walks_are_refused_gives_no_query(origin: Origin) -> None:
    queries = made_of(LIST, CountedWalk("options"), origin).queries
    assert queries and not [query for query in queries if "options" in query.task]


def test_an_unseen_app_is_not_trained_on(origin: Origin) -> None:
    away = LIST.model_copy(update={"app": "away"})
    queries = made_of(away, CountedWalk(), origin, GraphSourceSpec(train=3, heldout_apps=4)).queries
    assert Counter(query.split for query in queries) == {Split.HELDOUT_APPS: 4}


def test_training_has_other_values_of_each_task_of_which_goals_are_held_out(origin: Origin) -> None:
    page = LIST.pages["things"]
    field = page.slots["new"].model_copy(update={"values": tuple("abcdefgh")})
    many = page.model_copy(update={"slots": {**page.slots, "new": field}})
    graph = LIST.model_copy(update={"pages": {**LIST.pages, "things": many}})
    wanted = GraphSourceSpec(train=8, validation=1, heldout_slots=1, heldout_phrasings=1)
    queries = made_of(graph, CountedWalk(), origin, wanted).queries
    trained = Counter(query.task for query in queries if query.split is Split.TRAIN)
    assert len(queries) == 11 and len(trained) > 1
    assert all(trained[query.task] >= 3 for query in queries if query.split is not Split.TRAIN)
    assert leaks_in_queries(queries, ()) == ()


def test_queries_of_a_simulated_app_are_walked_in_it(world: World, origin: Origin) -> None:
    clock = graph_of_app(world.apps["clock"])

    async def walk(queries: Sequence[Query]) -> NewQueries:
        return await walk_all(SimulatedFactory(world, clock.platform), queries, origin)

    made = made_of(clock, walk, origin)
    splits = Counter(query.split for query in made.queries)
    assert splits[Split.TRAIN] == 12 and splits[Split.VALIDATION] and splits[Split.HELDOUT_PHRASINGS]
    assert leaks_in_queries(made.queries, ()) == ()
    assert {query.task.partition(".")[0] for query in made.queries} == {"clock"}


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
