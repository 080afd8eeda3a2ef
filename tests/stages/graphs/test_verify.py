import pytest

from tests.stages.graphs.explore.exploring import explore, simulated_app
from trajmill.schemas.actions import Action, Click, Wait
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment, SimulatedFactory
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.graphs.base import AppGraph, GraphPage
from trajmill.stages.graphs.explore.walker import Budget
from trajmill.stages.graphs.verify import EdgeState, VerifiedEdge, verify_graph


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> AppGraph:
    return explore(simulated_app("notes"), tmp_path_factory.mktemp("notes") / "notes.jsonl").graph


class _MissesItsFirstPress(SimulatedEnvironment):
    """A phone that is so busy at first that a press has no effect."""

    missed = False

    async def step(self, action: Action) -> Observation:
        if isinstance(action, Click) and not self.missed:
            self.missed, action = True, Wait(seconds=0.0)
        return await super().step(action)


class _BusyPhones(SimulatedFactory):
    async def __call__(self) -> SimulatedEnvironment:
        return _MissesItsFirstPress(shared_world(()), Platform.PHONE, FaultRates(popup=0))


async def _verified(graph: AppGraph, actions: int = 5000, busy: bool = False) -> list[VerifiedEdge]:
    made = _BusyPhones if busy else SimulatedFactory
    pool = EnvironmentPool(made(shared_world(()), graph.platform, FaultRates(popup=0)), 2)
    try:
        return await verify_graph(graph, pool, Budget(actions, 600.0), 2, lambda edge: None)
    finally:
        await pool.close()


def _with_page(graph: AppGraph, name: str, page: GraphPage) -> AppGraph:
    return graph.model_copy(update={"pages": {**graph.pages, name: page}})


async def test_an_explored_graph_holds_also_where_presses_are_missed_and_the_bounds_end_it(notes: AppGraph) -> None:
    edges = await _verified(notes)
    assert len(edges) == len(notes.transitions()) > 10
    assert [edge for edge in edges if edge.state is not EdgeState.HOLDS] == []
    assert {edge.state for edge in await _verified(notes, busy=True)} == {EdgeState.HOLDS}
    states = [edge.state for edge in await _verified(notes, actions=10)]
    assert EdgeState.HOLDS in states
    assert states.count(EdgeState.SKIPPED) > len(states) // 2


async def test_what_has_changed_is_said(notes: AppGraph) -> None:
    start = notes.pages["start"]
    elsewhere = start.transitions[0].model_copy(update={"to": "note-options"})
    gone = start.elements["note-options"].model_copy(update={"target": "notes.home/gone"})
    elements = {**start.elements, "note-options": gone}
    changed = start.model_copy(update={"transitions": (elsewhere, *start.transitions[1:]), "elements": elements})
    edges = [edge for edge in await _verified(_with_page(notes, "start", changed)) if edge.page == "start"]
    by = {changed.transitions[edge.number].by: edge for edge in edges}
    assert by["new-note"].state is EdgeState.CHANGED
    assert by["new-note"].reason == "it leads to `new-note`"
    assert by["note-options"].state is EdgeState.LOST
    assert by["note-options"].reason == "cannot scroll to notes.home/gone"
    assert by["shopping-list"].state is EdgeState.HOLDS
