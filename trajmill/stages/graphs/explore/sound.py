"""Leaves out of an explored graph what `graph check` would refuse."""

from __future__ import annotations

from itertools import combinations

import networkx as nx

from trajmill.stages.graphs.base import AppGraph, GraphPage
from trajmill.stages.graphs.check import is_same
from trajmill.stages.graphs.network import network


def sound(graph: AppGraph) -> AppGraph:
    """Return the graph without slots that have no value, pages that look like others, and pages nothing leads to."""
    pages = {name: _with_values(page) for name, page in graph.pages.items()}
    same: dict[str, str] = {}
    for (first, one), (second, other) in combinations(pages.items(), 2):
        if not {first, second} & same.keys() and is_same(one.recognise, other.recognise):
            same[second] = first
    unknown = {name for name, page in pages.items() if page.recognise.is_empty and name != graph.start}
    kept = {name: _leading(page, same, unknown) for name, page in pages.items() if name not in same.keys() | unknown}
    whole = graph.model_copy(update={"pages": kept})
    reached = nx.descendants(network(whole), graph.start) | {graph.start}
    return whole.model_copy(update={"pages": {name: page for name, page in kept.items() if name in reached}})


def _with_values(page: GraphPage) -> GraphPage:
    """Return a page without the slots that no value can be asked for, and what is operated by them."""
    slots = {name: slot for name, slot in page.slots.items() if any(value != slot.default for value in slot.values)}
    lost = page.slots.keys() - slots.keys()
    ways = tuple(each for each in page.transitions if lost.isdisjoint((each.by, *each.slots, *each.after)))
    return page.model_copy(update={"slots": slots, "transitions": ways})


def _leading(page: GraphPage, same: dict[str, str], unknown: set[str]) -> GraphPage:
    ways = (each.model_copy(update={"to": same.get(each.to, each.to)}) for each in page.transitions)
    return page.model_copy(update={"transitions": tuple(each for each in ways if each.to not in unknown)})
