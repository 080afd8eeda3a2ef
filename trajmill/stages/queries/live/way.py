"""Says the way to a page, so that an instruction asks for the page on which its goal is checked."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx

from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.network import walkable
from trajmill.stages.graphs.plain_does import written
from trajmill.stages.queries.live.base import RouteMove
from trajmill.stages.queries.live.metadata import page_name, pressed_name


def is_told_by_name(graph: AppGraph, page: str) -> bool:
    """Whether the name of a page tells it: of several pages with one name it is the one nearest to the start."""
    distances: dict[str, int] = nx.single_source_shortest_path_length(walkable(graph), graph.start)
    named = page_name(graph, page)
    same = [other for other in graph.pages if other in distances and page_name(graph, other) == named]
    return page == min(same, key=lambda other: distances[other], default=page)


def way_in_words(graph: AppGraph, way: Sequence[RouteMove], going: str) -> tuple[str, ...]:
    """What to do to follow moves from page to page: go to the last page that a name tells, then press what leads on.

    Args:
        graph: the graph.
        way: moves that do nothing but lead to other pages.
        going: the verb, e.g. `go to`.
    """
    told = max((number for number, move in enumerate(way) if is_told_by_name(graph, move.transition.to)), default=-1)
    named = (f"{going} {page_name(graph, way[told].transition.to)}",) if told >= 0 else ()
    return (*named, *(pressing(graph, move) for move in way[told + 1 :]))


def pressing(graph: AppGraph, move: RouteMove) -> str:
    """What a move does, as the end of `I want you to ...`; empty if it is a slot that is operated."""
    element = graph.pages[move.page].elements.get(move.transition.by)
    does = move.transition.does or (written(element.does) if element else "")
    pressed = pressed_name(graph, move.page, move.transition)
    return as_wish(does) if does else f"press {pressed}" if pressed else ""


def as_wish(does: str) -> str:
    """A sentence about an element as a wish: `Adds the entry.` is `add the entry`."""
    first, _, rest = does.strip().rstrip(".").partition(" ")
    verb = first[:1].lower() + first[1:]
    if verb.endswith("ies") and len(verb) > 4:
        verb = f"{verb[:-3]}y"
    elif verb.endswith(("sses", "shes", "ches", "xes", "zes", "oes")):
        verb = verb[:-2]
    elif verb.endswith("s") and not verb.endswith("ss"):
        verb = verb[:-1]
    return f"{verb} {rest}".strip()
