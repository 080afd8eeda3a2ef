"""Causal pathways in simulated and live apps: answers that are handed on, levels, splits, collapse, a model's words."""

import asyncio
from itertools import pairwise

import pytest

from tests.stages.derive.screens import words
from tests.stages.models.fault_server import running_server
from tests.stages.models.openai_api.asking import settings
from tests.stages.queries.samples import honest_draft
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Source, Split
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.agents.light_manus.agent import read_pathway
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.kinds import DevicesTogetherSpec, FaultRates, SimulatedSpec
from trajmill.stages.environments.simulated.reference_path import LAUNCHER
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.models.spec import Endpoint
from trajmill.stages.queries.base import FreshRequest, NewQueries, SourceContext, UnseenApps
from trajmill.stages.queries.causal.source import CausalSource, causal_source
from trajmill.stages.queries.generate import WriterModel, fresh_queries, make_queries
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.spec import CausalSpec
from trajmill.stages.queries.written import query_prompts
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode

pytestmark = pytest.mark.slow
ORIGIN = Origin(round=0, run_id="test", code_version="test")
WANTED = CausalSpec(
    train=9, validation=2, heldout_slots=2, heldout_phrasings=2, heldout_apps=2, level_weights=(1.0, 1.0, 1.0)
)
EASY = CausalSpec(train=2, level_weights=(1.0, 0.0, 0.0))
UNSEEN = UnseenApps(("wallet",), ("rides",))
SIZES = {1: {2}, 2: {3, 4}, 3: {5, 6, 7}}
DEVICES = DevicesTogetherSpec(simulated=SimulatedSpec(faults=FaultRates(popup=0, slow=0)))


async def made_in(environment: EnvironmentSpec, wanted: CausalSpec = WANTED) -> NewQueries:
    context = SourceContext(environment, UNSEEN, 5, ORIGIN, 2)
    return await make_queries([causal_source(wanted, environment)], context)


@pytest.fixture(scope="module")
def on_a_phone() -> NewQueries:
    return asyncio.run(made_in(SimulatedSpec()))


async def rolled(query: Query, environment: EnvironmentSpec, path_from: int = 0) -> Trajectory:
    """One attempt of the walk of a query's path, or of its end only."""
    device = await environment.factory(query.platform)()
    agent = ReferenceAgent(query.model_copy(update={"path": query.path[path_from:]}))
    done = await run_episode(Attempt(query, Purpose.REFERENCE, 0, 3), agent, device, Limits(), ORIGIN)
    await device.close()
    return done.episode.trajectory


def test_each_task_needs_the_answer_of_the_one_before(on_a_phone: NewQueries) -> None:
    assert on_a_phone.failures == () and len(on_a_phone.queries) == 17
    for query in on_a_phone.queries:
        assert query.source is Source.CAUSAL and query.validation == "passed" and query.atomic_tasks is not None
        tasks = query.atomic_tasks
        assert len(tasks) in SIZES[query.difficulty] and (query.difficulty < 3 or len(query.apps) >= 3)
        for before, after in pairwise(tasks):
            assert f"{{{before.answer}}}" in after.instruction and before.value not in query.instruction
            assert [slot.said for slot in query.slots if slot.value == before.value] == [""]
        lines = [f"[{task.device}] {task.instruction} -> {task.answer}".removesuffix(" -> ") for task in tasks]
        assert len(read_pathway(lines, tuple(Platform))) == len(tasks)


def test_held_out_values_phrasings_and_apps_are_not_in_training(on_a_phone: NewQueries) -> None:
    assert leaks_in_queries(on_a_phone.queries, ("wallet",)) == ()
    for query in on_a_phone.queries:
        assert ("wallet" in query.apps) is (query.split is Split.HELDOUT_APPS)
        assert query.split in (Split.VALIDATION, Split.HELDOUT_APPS) or "rides" not in query.apps
    begun = {
        split: {query.slots[0].value for query in on_a_phone.queries if query.split is split}
        for split in (Split.TRAIN, Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS)
    }
    assert begun[Split.TRAIN].isdisjoint(begun[Split.HELDOUT_SLOTS] | begun[Split.HELDOUT_PHRASINGS])


async def test_a_pathway_collapses_at_the_first_answer_that_is_not_looked_up(on_a_phone: NewQueries) -> None:
    spec = SimulatedSpec(faults=FaultRates(popup=0.5, slow=0))
    query = next(query for query in on_a_phone.queries if query.difficulty == 2)
    assert query.atomic_tasks is not None
    opened = [index for index, step in enumerate(query.path) if step.operation == "open"]
    whole, guessed = await rolled(query, spec), await rolled(query, spec, opened[-1])
    assert (whole.reward, whole.atomic_done) == (1.0, len(query.atomic_tasks))
    # The last task was done as it should be, but its input was not found; nothing counts after the collapse.
    assert (guessed.reward, guessed.atomic_done) == (0.0, 0)


async def test_later_rounds_bring_new_pathways_that_begin_with_nothing_held_out(on_a_phone: NewQueries) -> None:
    known, request = on_a_phone.queries, FreshRequest(4, 2, 17)
    context = SourceContext(SimulatedSpec(), UNSEEN, 5, ORIGIN)
    added = await fresh_queries([causal_source(WANTED, SimulatedSpec())], context, request, known)
    assert len(added) == 4 and all(query.difficulty <= 2 for query in added)
    assert leaks_in_queries((*known, *added), ("wallet",)) == ()
    held_out = {query.slots[0].value for query in known if query.split in (Split.HELDOUT_SLOTS, Split.VALIDATION)}
    assert held_out.isdisjoint(query.slots[0].value for query in added)


async def test_apps_without_answers_are_told() -> None:
    with pytest.raises(BadInputError, match="no answer that can be looked up; see `answers`"):
        await made_in(SimulatedSpec(builtin_apps=("tunes",)), CausalSpec(train=1))


def live(world: World, app: str) -> AppGraph:
    """The graph of an app that its opening brings to the front, as on a device that is not simulated."""
    graph = graph_of_app(world.apps[app])
    return graph.model_copy(
        update={"opening": tuple(step.model_copy(update={"page": f"{app}.icon"}) for step in graph.opening)}
    )


@pytest.fixture(scope="module")
def across(world: World) -> tuple[Query, ...]:
    source = CausalSource(EASY, (live(world, "notes"), live(world, "files")))
    return asyncio.run(make_queries([source], SourceContext(DEVICES, UnseenApps(), 5, ORIGIN))).queries


async def test_an_answer_goes_from_one_live_app_to_another_on_another_device(across: tuple[Query, ...]) -> None:
    assert len(across) == 2
    for query in across:
        assert {step.page for step in query.path}.isdisjoint({LAUNCHER})
        assert {task.device for task in query.atomic_tasks or ()} == {Platform.PHONE, Platform.DESKTOP}
        assert (await rolled(query, DEVICES)).atomic_done == 2


async def test_a_model_behind_a_server_words_pathways_and_tells_no_answer() -> None:
    phone = SimulatedSpec(faults=FaultRates(popup=0, slow=0))
    with running_server() as server:
        server.writes_samples = lambda body: [honest_draft(words(body))]
        writer = WriterModel(Endpoint(settings(server.url)), query_prompts(), 1)
        context = SourceContext(phone, UnseenApps(), 5, ORIGIN)
        made = await make_queries([causal_source(EASY, phone)], context, writer)
        asked = [words(received.body) for received in server.received]
    assert len(made.queries) == 2 and made.failures == () and len(asked) == 4
    for query in made.queries:
        assert query.made_by.startswith("writer_synthesise-1@") and query.slots[0].said in query.instruction
        for before, _ in pairwise(query.atomic_tasks or ()):
            assert before.value not in query.instruction
            assert not any(f'"{before.value}"' in text for text in asked)
