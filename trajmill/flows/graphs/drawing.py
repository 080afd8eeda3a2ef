"""Places the pages of a graph in columns by their distance from the start, for drawing."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import networkx as nx

from trajmill.stages.graphs.base import OUTSIDE, AppGraph
from trajmill.stages.graphs.network import network

WIDTH, HEIGHT = 200, 150
"""Size of a drawn page."""
_ACROSS, _DOWN = 300, 200


class DrawnPage(NamedTuple):
    """A page, or all that is outside, with its place."""

    name: str
    x: int
    y: int


class DrawnEdge(NamedTuple):
    """All transitions from one page to another."""

    path: str
    """SVG path."""
    label: str
    leaves: bool


class Drawing(NamedTuple):
    """A graph in two dimensions."""

    pages: tuple[DrawnPage, ...]
    edges: tuple[DrawnEdge, ...]
    width: int
    height: int


def draw_graph(graph: AppGraph) -> Drawing:
    """Place the pages; transitions from a page to itself are not drawn."""
    whole = network(graph)
    depths = nx.single_source_shortest_path_length(whole, graph.start)
    last = max(depths.values(), default=0)
    columns: dict[int, list[str]] = defaultdict(list)
    for name in whole:
        columns[depths.get(name, last + 1)].append(name)
    places = {
        name: DrawnPage(name, 20 + column * _ACROSS, 20 + row * _DOWN)
        for column, names in sorted(columns.items())
        for row, name in enumerate(sorted(names, key=lambda each: each == OUTSIDE))
    }
    labels: dict[tuple[str, str], list[str]] = defaultdict(list)
    for page, transition in graph.transitions():
        if transition.to != page:
            labels[page, transition.to].append(transition.by or transition.keys)
    edges = tuple(
        DrawnEdge(_path(places[first], places[second]), f"{first} → {second}: {', '.join(by)}", second == OUTSIDE)
        for (first, second), by in labels.items()
    )
    drawn = tuple(places.values())
    width = max(page.x for page in drawn) + WIDTH + 20
    return Drawing(drawn, edges, width, max(page.y for page in drawn) + HEIGHT + 20)


def _path(first: DrawnPage, second: DrawnPage) -> str:
    """A curve from the right edge of one page to the left edge of another; within a column at the right, else below."""
    middle = HEIGHT // 2
    if second.x > first.x:
        start, end = first.x + WIDTH, second.x
        bend = (start + end) // 2
        high, low = first.y + middle, second.y + middle
        return f"M{start},{high} C{bend},{high} {bend},{low} {end},{low}"
    if second.x == first.x:
        edge, bend = first.x + WIDTH, first.x + WIDTH + 60
        high, low = first.y + middle + 20, second.y + middle - 20
        return f"M{edge},{high} C{bend},{high} {bend},{low} {edge},{low}"
    low = max(first.y, second.y) + HEIGHT + 30
    start, end = first.x + WIDTH // 2, second.x + WIDTH // 2
    return f"M{start},{first.y + HEIGHT} C{start},{low} {end},{low} {end},{second.y + HEIGHT}"
