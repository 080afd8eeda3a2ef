"""Causal pathways through two apps that are opened as live ones are; words from a model behind a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import pytest

from tests.stages.derive.asked_models import words
from tests.stages.models.fault_server import running_server
from tests.stages.models.openai_api.asking import settings
from tests.stages.queries.causal.test_generate import ORIGIN, rolled
from tests.stages.queries.tasks.honest import honest_draft
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.kinds import DevicesTogetherSpec, FaultRates, SimulatedSpec
from trajmill.stages.environments.simulated.reference_path import LAUNCHER
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.models.base import ChatModel
from trajmill.stages.queries.base import SourceContext, UnseenApps
from trajmill.stages.queries.causal.source import CausalSource, causal_source
from trajmill.stages.queries.generate import WriterModel, make_queries
from trajmill.stages.queries.model_writer import writer_prompts
from trajmill.stages.queries.spec import CausalSpec

pytestmark = pytest.mark.slow
DEVICES = DevicesTogetherSpec(simulated=SimulatedSpec(faults=FaultRates(popup=0)))
EASY = CausalSpec(train=2, level_weights=(1.0, 0.0, 0.0))


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


def test_an_answer_goes_from_one_live_app_to_another_on_another_device(across: tuple[Query, ...]) -> None:
    assert len(across) == 2
    for query in across:
        assert {step.page for step in query.path}.isdisjoint({LAUNCHER})
        assert {task.device for task in query.atomic_tasks or ()} == {Platform.PHONE, Platform.DESKTOP}
        assert rolled(query, DEVICES).atomic_done == 2


def test_a_pathway_of_live_apps_collapses_where_the_first_answer_is_not_looked_up(across: tuple[Query, ...]) -> None:
    query = across[0]
    switched = next(number for number, step in enumerate(query.path) if step.operation == "switch")
    guessed = rolled(query, DEVICES, switched)
    assert (guessed.reward, guessed.atomic_done) == (0.0, 0)


class _Behind(NamedTuple):
    """A model behind a server."""

    url: str

    def open(self, origin: Origin, sink: Callable[[ModelCall], None]) -> ChatModel:
        return settings(self.url).connect({})


def test_a_model_behind_a_server_words_pathways_and_tells_no_answer() -> None:
    phone = SimulatedSpec(faults=FaultRates(popup=0))
    with running_server() as server:
        server.writes_samples = lambda body: [honest_draft(words(body))]
        writer = WriterModel(_Behind(server.url), writer_prompts(), 1)
        context = SourceContext(phone, UnseenApps(), 5, ORIGIN)
        made = asyncio.run(make_queries([causal_source(EASY, phone)], context, writer))
        asked = [words(received.body) for received in server.received]
    assert len(made.queries) == 2 and made.failures == () and len(asked) == 4
    for query in made.queries:
        assert query.made_by.startswith("writer_synthesise-1@") and query.slots[0].said in query.instruction
        for before, _ in pairwise(query.atomic_tasks or ()):
            assert before.value not in query.instruction
            assert not any(f'"{before.value}"' in text for text in asked)
