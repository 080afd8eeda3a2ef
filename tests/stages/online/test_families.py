import asyncio

import pytest

from trajmill.schemas.actions import Action
from trajmill.schemas.dialects.base import NotExpressible, Reply
from trajmill.schemas.dialects.families import FAMILIES, Family
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.environments.openenv.wire import WireAction
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.online.host import EndedEpisode, EpisodeHost, EpisodeOrder, HostSettings, ServedQueries, ShownStep
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import generate_queries

ORIGIN = Origin(round=0, run_id="test", code_version="test")


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    world = shared_world(())
    settings = GraphQueriesSpec(
        train=6, heldout_slots=0, heldout_phrasings=0, heldout_apps=0, heldout_app_names=(), validation=0
    )
    made = asyncio.run(generate_queries(world, settings, 3, ORIGIN))
    return [query for query in made.queries if query.split is Split.TRAIN]


async def not_drawn(_: Observation) -> bytes:
    return b"png"


def asked(action: Action, family: Family, query: Query, seen: Observation) -> WireAction:
    """The action in the words of the family; typed where it has none for it."""
    frame = family.frame(seen.screen.size)
    try:
        return WireAction(reply=family.dialect(query.platform).render(Reply("So.", action, "Done."), frame))
    except NotExpressible:
        return WireAction(action=action.model_dump(mode="json"))


async def walk(host: EpisodeHost, query: Query, seed: int) -> EndedEpisode:
    agent, history = ReferenceAgent(query), list[Decision]()
    come: ShownStep | EndedEpisode
    episode, come = await host.begin(EpisodeOrder(query.query_id, seed, record=False))
    while isinstance(come, ShownStep):
        assert come.error == ""
        assert come.messages[-1].parts[-1] == come.observation
        decision = await agent.act(EpisodeView(query.instruction, None, come.observation, tuple(history), seed))
        assert decision.action is not None
        history.append(decision)
        come = await episode.step(asked(decision.action, host.settings.family, query, come.observation))
    return come


async def rewards(family: Family, queries: list[Query]) -> list[float | None]:
    async def record(*_: object) -> None:
        raise AssertionError("nobody asked for it")

    served = ServedQueries(queries, [Split.TRAIN])
    host = EpisodeHost(SimulatedSpec(), served, HostSettings(ORIGIN, family=family), record, draw=not_drawn)
    try:
        walked = await asyncio.gather(*(walk(host, query, seed) for seed, query in enumerate(queries)))
    finally:
        await host.close()
    return [each.reward for each in walked]


# Positions of `read-aloud` are multiples of 14 pixels: too coarse for some of these screens.
@pytest.mark.parametrize("name", sorted(FAMILIES.keys() - {"read-aloud"}))
def test_all_tasks_are_done_in_the_words_of_a_family(name: str, queries: list[Query]) -> None:
    assert asyncio.run(rewards(FAMILIES[name], queries)) == [1.0] * len(queries)
