"""Causal pathways: the atomic tasks that graphs offer, and chains of them (NaturalGAIA 3.1 and 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trajmill.schemas.tables.query import Platform
from trajmill.stages.graphs.base import AppGraph, GraphAnswer, SlotKind
from trajmill.stages.queries.graph.routes import Route, RouteSample, checks_values, routes, routes_to, slots_of

EASY_TASKS = 2
MEDIUM_TASKS = 4
MOST_TASKS = 7
"""Most atomic tasks of levels 1, 2 and 3 (NaturalGAIA 3.4)."""
HARD_APPS = 3
"""Fewest apps of level 3."""
_MOST_SLOTS = 3
"""Most slots of one atomic task; one of them is its input."""


class ReadingTask(NamedTuple):
    """An atomic task that looks something up: its input is an item, its answer a text about it."""

    route: Route
    answer: GraphAnswer

    @property
    def graph(self) -> AppGraph:
        """The graph of its app."""
        return self.route.graph


class WritingTask(NamedTuple):
    """An atomic task that puts its input into a field; it gives no answer, so it ends a pathway."""

    route: Route
    slot: str
    """The field."""

    @property
    def graph(self) -> AppGraph:
        """The graph of its app."""
        return self.route.graph


class PathwayNode(NamedTuple):
    """An atomic task with its values."""

    sample: RouteSample
    slot: str
    """The slot of its input."""
    input: str
    answer: GraphAnswer | None
    """The text that it looks up; None for the last task."""
    value: str
    """The right answer; empty for the last task."""

    @property
    def graph(self) -> AppGraph:
        """The graph of its app."""
        return self.sample.graph

    @property
    def values(self) -> dict[str, str]:
        """The values of the slots, and `answer`, as the annotation of an answer names them."""
        return {**{setting.slot: setting.value for setting in self.sample.settings}, "answer": self.value}


class CausalPathway(NamedTuple):
    """Atomic tasks, of which each but the first has the answer of the one before as its input."""

    nodes: tuple[PathwayNode, ...]

    @property
    def task(self) -> str:
        """Name of the task; its pathways differ in values alone."""
        return "causal." + "-".join(node.graph.app for node in self.nodes)

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Equal for pathways of a task that ask for the same thing."""
        return tuple(
            (f"{n}_{each.name}", each.value) for n, node in enumerate(self.nodes) for each in node.sample.settings
        )

    @property
    def apps(self) -> tuple[str, ...]:
        """The apps in order of use, each once."""
        return tuple(dict.fromkeys(node.graph.app for node in self.nodes))

    @property
    def first(self) -> Platform:
        """The device at which it begins."""
        return self.nodes[0].graph.platform

    @property
    def level(self) -> int:
        """Its difficulty, 1 to 3."""
        return level_of(len(self.nodes), len(self.apps))


def level_of(tasks: int, apps: int) -> int:
    """The difficulty of a pathway by its atomic tasks and apps (NaturalGAIA 3.4)."""
    if tasks > MEDIUM_TASKS and apps >= HARD_APPS:
        return 3
    return 2 if tasks > EASY_TASKS else 1


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
