"""Draws a graph as one HTML file, with the screenshots in it; pages stand in columns by distance from the start."""

from __future__ import annotations

import base64
from collections import defaultdict
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import networkx as nx
from jinja2 import Environment, PackageLoader, StrictUndefined

from trajmill.flows.graphs.explore import open_picture, picture_files
from trajmill.schemas.geometry import Size
from trajmill.stages.graphs.base import OUTSIDE, AppGraph
from trajmill.stages.graphs.file import read_graph
from trajmill.stages.graphs.network import network

_LARGEST = 900
"""Longest side of an embedded picture, in pixels."""
_WIDTH, _HEIGHT = 200, 150
"""Size of a drawn page."""
_ACROSS, _DOWN = 300, 200


class EmbeddedPicture(NamedTuple):
    url: str
    size: Size


class DrawnPage(NamedTuple):
    """A page, or all that is outside, with its place."""

    name: str
    x: int
    y: int


class DrawnEdge(NamedTuple):
    """All transitions from one page to another."""

    path: str
    label: str
    leaves: bool


class Drawing(NamedTuple):
    pages: tuple[DrawnPage, ...]
    edges: tuple[DrawnEdge, ...]
    width: int
    height: int


def write_graph_page(path: Path, out: Path) -> None:
    """Write the HTML page of a graph. Raises BadInputError if the file is no graph, or a picture is none."""
    graph = read_graph(path)
    pictures = {}
    for name, file in picture_files(graph, path.parent).items():
        with open_picture(file) as image:
            size, small, data = Size(*image.size), image.convert("RGB"), BytesIO()
        small.thumbnail((_LARGEST, _LARGEST))
        small.save(data, "WEBP", quality=80)
        url = f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}"
        pictures[name] = EmbeddedPicture(url, size)
    environment = Environment(
        loader=PackageLoader("trajmill.flows.graphs"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    template = environment.get_template("graph.html.jinja")
    html = template.render(graph=graph, pictures=pictures, drawing=draw_graph(graph), wide=_WIDTH, high=_HEIGHT)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(html, encoding="utf-8")


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
    width = max(page.x for page in places.values()) + _WIDTH + 20
    height = max(page.y for page in places.values()) + _HEIGHT + 20
    return Drawing(tuple(places.values()), edges, width, height)


def _path(first: DrawnPage, second: DrawnPage) -> str:
    """A curve from the right edge of one page to the left edge of another; within a column at the right, else below."""
    middle, start = _HEIGHT // 2, first.x + _WIDTH
    if second.x > first.x:
        bend, high, low = (start + second.x) // 2, first.y + middle, second.y + middle
        return f"M{start},{high} C{bend},{high} {bend},{low} {second.x},{low}"
    if second.x == first.x:
        bend, high, low = start + 60, first.y + middle + 20, second.y + middle - 20
        return f"M{start},{high} C{bend},{high} {bend},{low} {start},{low}"
    low = max(first.y, second.y) + _HEIGHT + 30
    start, end = first.x + _WIDTH // 2, second.x + _WIDTH // 2
    return f"M{start},{first.y + _HEIGHT} C{start},{low} {end},{low} {end},{second.y + _HEIGHT}"
