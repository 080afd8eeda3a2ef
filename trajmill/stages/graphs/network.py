"""App graphs as networkx graphs."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from trajmill.stages.graphs.base import OUTSIDE, AppGraph, GraphTransition, Mark


def network(graph: AppGraph) -> nx.MultiDiGraph[str]:
    """The graph with all pages as nodes and all transitions as edges, each with the attribute `transition`.

    A transition that leaves the app ends at the node `outside`; a node has its page as the attribute `page`.
    """
    return _network(graph, graph.transitions())


def walkable(graph: AppGraph) -> nx.MultiDiGraph[str]:
    """The part of the network that an agent may walk: nothing that leaves, destroys or needs a log-in."""
    return _network(
        graph,
        [
            (name, transition)
            for name, transition in graph.transitions()
            if transition.to != OUTSIDE and not marks_on_way(graph, name, transition)
        ],
    )


def _network(graph: AppGraph, transitions: Iterable[tuple[str, GraphTransition]]) -> nx.MultiDiGraph[str]:
    found: nx.MultiDiGraph[str] = nx.MultiDiGraph(app=graph.app, start=graph.start)
    for name, page in graph.pages.items():
        found.add_node(name, page=page)
    for name, transition in transitions:
        found.add_edge(name, transition.to, transition=transition)
    return found


def marks_on_way(graph: AppGraph, page: str, transition: GraphTransition) -> frozenset[Mark]:
    """The marks of a transition, of its element and of the page that it leads to."""
    element = graph.pages[page].elements.get(transition.by)
    end = graph.pages.get(transition.to)
    return frozenset((*transition.marks, *(element.marks if element else ()), *(end.marks if end else ())))
