"""Finds the atomic tasks that graphs offer: texts that can be looked up, and fields that can be filled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trajmill.stages.graphs.base import AppGraph, SlotKind
from trajmill.stages.queries.causal.base import ReadingTask, WritingTask
from trajmill.stages.queries.live.base import Route
from trajmill.stages.queries.live.goal import checks_values, slots_of
from trajmill.stages.queries.live.routes import routes, routes_to

_MOST_SLOTS = 3
"""Most slots of one atomic task; one of them is its input."""


class AtomicTasks(NamedTuple):
    """The atomic tasks that graphs offer."""

    reading: tuple[ReadingTask, ...]
    writing: tuple[WritingTask, ...]


def atomic_tasks(graphs: Iterable[AppGraph]) -> AtomicTasks:
    """The atomic tasks of graphs, each by its shortest route."""
    known = tuple(graphs)
    return AtomicTasks(
        tuple(task for graph in known for task in _reading(graph)),
        tuple(task for graph in known for task in _writing(graph)),
    )


def _reading(graph: AppGraph) -> Iterator[ReadingTask]:
    for page, spec in graph.pages.items():
        for answer in spec.answers.values():
            ways = [way for way in routes_to(graph, page) if answer.of in _slots(way) and _is_short(way)]
            if ways:
                yield ReadingTask(min(ways, key=_length), answer)


def _writing(graph: AppGraph) -> Iterator[WritingTask]:
    shortest: dict[tuple[str, str], Route] = {}
    for route in sorted(routes(graph), key=_length):
        fields = [slot for move in route.moves for slot in _fields(route, move.page, slots_of(route, move))]
        # Filled twice, a field would need two values, of which one answer gives only one.
        if len(fields) == len(set(fields)) and not route.final and _is_short(route) and checks_values(route):
            for slot in fields:
                shortest.setdefault((route.end, slot), route)
    return (WritingTask(route, slot) for (_, slot), route in shortest.items())


def _fields(route: Route, page: str, slots: Sequence[str]) -> list[str]:
    return [slot for slot in slots if route.graph.pages[page].slots[slot].kind is SlotKind.FIELD]


def _slots(route: Route) -> list[str]:
    return [slot for move in route.moves for slot in slots_of(route, move)]


def _is_short(route: Route) -> bool:
    return len(_slots(route)) <= _MOST_SLOTS


def _length(route: Route) -> int:
    return len(route.moves) + len(_slots(route))
