from __future__ import annotations

import asyncio

import pytest

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.queries.base import FreshRequest, SourceContext, UnseenApps
from trajmill.stages.queries.generate import fresh_queries
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import TaskSource, generate_queries

SETTINGS = GraphQueriesSpec(
    train=30, heldout_slots=10, heldout_phrasings=10, heldout_apps=5, heldout_app_names=("notes",), validation=8
)


@pytest.fixture(scope="module")
def known(world: World, origin: Origin) -> tuple[Query, ...]:
    made = generate_queries(world, SETTINGS, 1, origin)
    return asyncio.run(made).queries


def fresh(
    world: World, origin: Origin, known: tuple[Query, ...], seed: int, level: int = 3, count: int = 12
) -> tuple[Query, ...]:
    context = SourceContext(SimulatedSpec(), UnseenApps(SETTINGS.heldout_app_names), 1, origin)
    source = TaskSource(world, SETTINGS)
    return asyncio.run(fresh_queries([source], context, FreshRequest(count, level, seed), known))


@pytest.mark.slow
def test_rounds_add_other_queries_and_nothing_of_the_held_out_sets(
    world: World, origin: Origin, known: tuple[Query, ...]
) -> None:
    first = fresh(world, origin, known, seed=2)
    assert fresh(world, origin, known, seed=2) == first
    second = fresh(world, origin, (*known, *first), seed=3)
    every = (*known, *first, *second)
    assert (len(first), len(second)) == (12, 12)
    assert len({query.query_id for query in every}) == len(every)
    assert {(query.split, query.validation) for query in (*first, *second)} == {(Split.TRAIN, "passed")}
    assert leaks_in_queries(every, SETTINGS.heldout_app_names) == ()


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2])
def test_none_is_harder_than_asked_for_and_as_many_as_possible_are_as_hard(
    world: World, origin: Origin, known: tuple[Query, ...], level: int
) -> None:
    assert {query.difficulty for query in fresh(world, origin, known, seed=2, level=level, count=6)} == {level}
