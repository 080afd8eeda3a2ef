"""App graphs as networkx graphs."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from trajmill.stages.graphs.base import AVOIDED, OUTSIDE, AppGraph, GraphTransition, Mark


def network(graph: AppGraph, transitions: Iterable[tuple[str, GraphTransition]] | None = None) -> nx.MultiDiGraph[str]:
    """Return the graph with all pages as nodes and all transitions as edges, each with the attribute `transition`.

    A transition that leaves the app ends at the node `outside`; a node has its page as the attribute `page`.
    """
    found: nx.MultiDiGraph[str] = nx.MultiDiGraph(app=graph.app, start=graph.start)
    for name, page in graph.pages.items():
        found.add_node(name, page=page)
    for name, transition in graph.transitions() if transitions is None else transitions:
        found.add_edge(name, transition.to, transition=transition)
    return found


def walkable(graph: AppGraph) -> nx.MultiDiGraph[str]:
    """Return the part of the network that an agent may walk: nothing that leaves, destroys or needs a log-in."""
    ways = (each for each in graph.transitions() if each[1].to != OUTSIDE and not marks_on_way(graph, *each))
    return network(graph, ways)


def marks_on_way(graph: AppGraph, page: str, transition: GraphTransition) -> frozenset[Mark]:
    """Return the marks to avoid of a transition, of its element and of the page that it leads to."""
    element, end = graph.pages[page].elements.get(transition.by), graph.pages.get(transition.to)
    return AVOIDED & {*transition.marks, *(element.marks if element else ()), *(end.marks if end else ())}
