"""The atomic tasks that graphs offer, and the pathways that are made of them (NaturalGAIA 3.1 and 3.2)."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.tables.query import Platform
from trajmill.stages.graphs.base import AppGraph, GraphAnswer
from trajmill.stages.queries.live.base import LiveSample, Route

EASY_TASKS = 2
MEDIUM_TASKS = 4
MOST_TASKS = 7
"""Most atomic tasks of levels 1, 2 and 3 (NaturalGAIA 3.4)."""
HARD_APPS = 3
"""Fewest apps of level 3."""


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

    sample: LiveSample
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

    def filled(self, text: str) -> str:
        """A text of the answer's annotation, with the values of the slots and the answer in place of their names."""
        values = {setting.slot: setting.value for setting in self.sample.settings}
        for name, value in (*values.items(), ("answer", self.value)):
            text = text.replace(f"{{{name}}}", value)
        return text


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
