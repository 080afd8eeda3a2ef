from itertools import pairwise

import networkx as nx

from trajmill.schemas.actions import Terminate
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.agents.reference import WalkPosition, next_move
from trajmill.stages.environments.kinds import FaultRates, SimulatedSpec
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.graphs.base import AppGraph, GraphTransition, SlotKind
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.graphs.network import network, walkable
from trajmill.stages.graphs.operations import graph_start, set_slot, take
from trajmill.stages.graphs.recognise import filled, is_on, page_on


def _graph(app: str) -> AppGraph:
    return graph_of_app(shared_world(()).apps[app])


def _edge(graph: AppGraph, first: str, second: str) -> GraphTransition:
    return next(each for each in graph.pages[first].transitions if each.to == second)


async def _walk(graph: AppGraph, steps: tuple[PathStep, ...]) -> Observation:
    environment = await SimulatedSpec(faults=FaultRates(popup=0)).factory(graph.platform)()
    seen, position = await environment.reset(graph_start(graph), 0), WalkPosition()
    while position.step < len(steps):
        action, position = next_move(steps, seen, position, graph.platform)
        assert not isinstance(action, Terminate), f"{steps[position.step]} is not possible"
        seen = await environment.step(action)
    return seen


async def test_a_path_of_transitions_leads_where_the_graph_says() -> None:
    graph = _graph("photos")
    way = nx.shortest_path(network(graph), graph.start, "new")
    create = next(each for each in graph.pages["new"].transitions if each.by == "create")
    assert create.slots == ("album_name",)
    values = {"album_name": "Bees"}
    steps = (
        *graph.opening,
        *(step for first, second in pairwise(way) for step in take(graph, first, _edge(graph, first, second))),
        *set_slot(graph, "new", "shared", "on"),
        *take(graph, "new", create, values),
    )
    seen = await _walk(graph, steps)
    assert page_on(graph, seen) == create.to
    assert [feature.text for feature in create.shows] == ["Album: {album_name}"]
    assert all(is_on(filled(feature, values), seen.elements or ()) for feature in create.shows)


async def test_an_item_of_a_list_and_a_menu_lead_on() -> None:
    graph = _graph("notes")
    pick = next(each for each in graph.pages["home"].transitions if each.by == "notes")
    assert graph.pages["home"].slots["notes"].kind is SlotKind.LIST
    seen = await _walk(graph, (*graph.opening, *take(graph, "home", pick, {"notes": "Garden plan"})))
    assert page_on(graph, seen) == "note"
    graph = _graph("writer")
    page, opening = next((name, each) for name, each in graph.transitions() if each.to.endswith("-menu"))
    assert page == graph.start
    seen = await _walk(graph, (*graph.opening, *take(graph, page, opening)))
    assert page_on(graph, seen) == opening.to


def test_every_app_has_a_network() -> None:
    for name in shared_world(()).apps:
        graph = _graph(name)
        assert set(network(graph)) == set(walkable(graph)) == set(graph.pages)
        assert network(graph).number_of_edges() == len(graph.transitions())
