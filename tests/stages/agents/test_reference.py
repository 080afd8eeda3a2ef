from __future__ import annotations

import asyncio

import pytest

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import World, shared_world
from trajmill.stages.queries.base import GrammarWriter
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import SimulatedValidator, generate_queries

ORIGIN = Origin(round=0, run_id="test", code_version="test")


@pytest.fixture(scope="module")
def world() -> World:
    return shared_world(())


@pytest.fixture(scope="module")
def queries(world: World) -> list[Query]:
    settings = GraphQueriesSpec(
        train=40, heldout_slots=0, heldout_phrasings=0, heldout_apps=0, heldout_app_names=(), validation=0
    )
    made = asyncio.run(generate_queries(world, settings, 3, ORIGIN, GrammarWriter(), SimulatedValidator(world)))
    return [query for query in made.queries if query.split is Split.TRAIN]


async def walk(world: World, query: Query, seed: int) -> tuple[float | None, int]:
    environment = SimulatedEnvironment(world, query.platform, FaultRates(popup=0.5))
    agent, history = ReferenceAgent(query), list[Decision]()
    seen = await environment.reset(query, seed)
    while not history or history[-1].action is None or history[-1].action.kind != "terminate":
        decision = await agent.act(EpisodeView(query.instruction, None, seen, tuple(history), seed))
        assert decision.action is not None
        history.append(decision)
        seen = await environment.step(decision.action)
        assert len(history) <= query.max_steps
    return await environment.score(), len(history)


@pytest.mark.slow
def test_it_does_every_task_on_every_device_in_spite_of_popups(world: World, queries: list[Query]) -> None:
    scores = [asyncio.run(walk(world, query, seed))[0] for seed, query in enumerate(queries)]
    assert scores == [1.0] * len(queries)
