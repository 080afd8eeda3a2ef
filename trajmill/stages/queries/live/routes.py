"""Finds the routes of a graph whose end can be checked (GUI-Owl 6.2, step 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, islice
from typing import Any

import networkx as nx

from trajmill.stages.graphs.base import AppGraph, Feature, GraphTransition, SlotKind
from trajmill.stages.graphs.network import walkable
from trajmill.stages.graphs.operations import staying
from trajmill.stages.graphs.plain_does import has_no_words
from trajmill.stages.queries.live.base import Route, RouteMove
from trajmill.stages.queries.live.goal import checks_values

DEPTH = 5
"""Most transitions on the way to a page."""
_WAYS = 3
"""Most ways to one page; the shortest ones."""
_WAYS_LOOKED_AT = 200
_REPEATS = 2
"""Most transitions that stay on the last page."""
_SET_TOGETHER = 2
"""Most slots that are set on the last page."""


def routes(graph: AppGraph) -> tuple[Route, ...]:
    """All routes that can be asked for: to a page, to a change on it, and to values that are set on it.

    Nothing that leaves the app, destroys something or needs a log-in is on a route. A route is left out if the screen
    at its end does not tell its values, because then no check could tell right from wrong; if something is entered
    on the way that no instruction asks for; or if it presses what has no name.
    """
    allowed = walkable(graph)
    found = [route for page in graph.pages for way in _ways(allowed, graph, page) for route in _from(allowed, way)]
    return tuple(route for route in found if checks_values(route) and _can_be_asked(route))


def routes_to(graph: AppGraph, page: str) -> tuple[Route, ...]:
    """The shortest ways from the start to a page, without anything that is done there."""
    return tuple(_ways(walkable(graph), graph, page))


def _ways(allowed: nx.MultiDiGraph[str], graph: AppGraph, page: str) -> Iterator[Route]:
    """The shortest ways from the start to a page."""
    if page == graph.start:
        yield Route(graph, ())
        return
    if not nx.has_path(allowed, graph.start, page):
        return
    longest = min(DEPTH, int(nx.shortest_path_length(allowed, graph.start, page)) + 1)
    ways: Iterator[Any] = nx.all_simple_edge_paths(allowed, graph.start, page, cutoff=longest)
    for way in sorted(islice(ways, _WAYS_LOOKED_AT), key=len)[:_WAYS]:
        yield Route(graph, tuple(RouteMove(first, _transition(allowed, first, last, key)) for first, last, key in way))


def _from(allowed: nx.MultiDiGraph[str], way: Route) -> Iterator[Route]:
    """The routes that a way to a page gives."""
    page = way.graph.pages[way.end]
    if way.moves and page.recognise.shows:
        yield way
    staying: Mapping[Any, Any] = allowed.get_edge_data(way.end, way.end, default={})
    loops = [RouteMove(way.end, data["transition"]) for data in staying.values() if _changes(data["transition"])]
    for number in range(1, _REPEATS + 1):
        for chosen in combinations(loops * number, number):
            if any(_exclude(one.transition, other.transition) for one, other in combinations(chosen, 2)):
                continue
            yield way._replace(moves=(*way.moves, *chosen))
    used = {slot for move in loops for slot in (*move.transition.slots, move.transition.by)}
    settable = [name for name, slot in page.slots.items() if slot.kind is not SlotKind.LIST and name not in used]
    for number in range(1, _SET_TOGETHER + 1):
        for slots in combinations(settable, number):
            yield way._replace(final=slots)


def _transition(allowed: nx.MultiDiGraph[str], first: str, last: str, key: int) -> GraphTransition:
    found: GraphTransition = allowed.get_edge_data(first, last)[key]["transition"]
    return found


def _exclude(first: GraphTransition, second: GraphTransition) -> bool:
    """Whether the effects of two transitions cannot stand on one screen, or the second one adds nothing."""
    if first == second:
        return not (first.slots or any("{" in f"{each.text}{each.value}" for each in first.shows))
    if set(first.shows) & set(second.lacks) or set(first.lacks) & set(second.shows):
        return True
    return any(_differ(one, other) for one in first.shows for other in second.shows)


def _differ(first: Feature, second: Feature) -> bool:
    """Whether two features say different things of one element."""
    if not first.id or (first.role, first.id) != (second.role, second.id):
        return False
    told = ((first.text, second.text), (first.value, second.value))
    return any(None not in pair and pair[0] != pair[1] and "{" not in f"{pair}" for pair in told)


def _can_be_asked(route: Route) -> bool:
    pages = route.graph.pages
    nameless = any(has_no_words(move.page, pages[move.page], move.transition) for move in route.moves)
    return not (nameless or _enters_unasked(route))


def _enters_unasked(route: Route) -> bool:
    """Whether a move first does something on its page for which a value must be chosen."""
    for move in route.moves:
        page = route.graph.pages[move.page]
        for name in move.transition.after:
            before = staying(page, move.page).get(name)
            is_field = name in page.slots and page.slots[name].kind is SlotKind.FIELD
            if is_field or (before and (before.slots or before.by in page.slots)):
                return True
    return False


def _changes(transition: GraphTransition) -> bool:
    return bool(transition.shows or transition.lacks or transition.goal)
