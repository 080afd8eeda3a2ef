"""Causal pathways: chains of atomic tasks, with their path, start state and goal (NaturalGAIA 3.1, 3.2)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.screen_goal import PATHWAY
from trajmill.stages.environments.simulated.reference_path import LAUNCHER
from trajmill.stages.graphs.base import AppGraph, GraphAnswer, SlotKind
from trajmill.stages.graphs.recognise import fill
from trajmill.stages.queries.graph.routes import Route, RouteSample, checks_values, routes, routes_to
from trajmill.stages.queries.graph.source import merged, route_goal, steps_of

EASY_TASKS = 2
MEDIUM_TASKS = 4
MOST_TASKS = 7
"""Most atomic tasks of levels 1, 2 and 3 (NaturalGAIA 3.4)."""
HARD_APPS = 3
"""Fewest apps of level 3."""
_MOST_SLOTS = 3
"""Most slots of one atomic task; one of them is its input."""
_NUMBER = re.compile(r"#\d+$")


class ReadingTask(NamedTuple):
    """An atomic task that looks something up: its input is an item, its answer a text about it."""

    route: Route
    answer: GraphAnswer


class WritingTask(NamedTuple):
    """An atomic task that puts its input into a field; it gives no answer, so it ends a pathway."""

    route: Route
    slot: str
    """The field."""


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

    def filled(self, part: Any) -> Any:
        """Fill in the annotation of an answer: the values of the slots, and `answer`."""
        return fill(part, {**{each.slot: each.value for each in self.sample.settings}, "answer": self.value})


class CausalPathway(NamedTuple):
    """Atomic tasks; the answer of each is the input of the next."""

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
        """Its difficulty, 1 to 3, by its atomic tasks and apps (NaturalGAIA 3.4)."""
        if len(self.nodes) > MEDIUM_TASKS and len(self.apps) >= HARD_APPS:
            return 3
        return 2 if len(self.nodes) > EASY_TASKS else 1

    def path(self) -> tuple[PathStep, ...]:
        """Return the steps of all atomic tasks; where the device changes, a step goes to it."""
        steps: list[PathStep] = []
        device = self.first
        for node in self.nodes:
            if node.graph.platform is not device:
                device = node.graph.platform
                steps.append(PathStep(page=str(device), operation="switch", target=str(device)))
            if is_simulated(node.graph):
                steps.append(PathStep(page=LAUNCHER, operation="open", target=node.graph.title))
                steps += _in_simulated_app(steps_of(node.sample))
            else:
                steps += (*node.graph.opening, *steps_of(node.sample))
            page = f"{node.graph.app}.{node.sample.end}"
            if node.answer:
                steps.append(PathStep(page=page, operation="scroll", target=node.filled(node.answer.target)))
        return (*steps, PathStep(page=page, operation="finish", target=""))

    def start_json(self, several_devices: bool) -> str:
        """Return the start state: those of the apps, with all items that answers are read from."""
        states: dict[Platform, dict[str, Any]] = {}
        for node in self.nodes:
            state = merged(states.get(node.graph.platform, {}), node.graph.start_state)
            prepared = node.filled(node.answer.prepare) if node.answer else {}
            states[node.graph.platform] = merged(state, prepared)
        whole = {"devices": states} if several_devices else states[self.first]
        return json.dumps(whole, sort_keys=True, ensure_ascii=False)

    def goal_json(self, several_devices: bool) -> str:
        """Return the goal: each answer was seen in its turn, and the last screen is that of the last task."""
        seen = [
            {
                "showing": [{"target": node.filled(node.answer.target), "text": node.filled(node.answer.text)}],
                **({"device": node.graph.platform} if several_devices else {}),
            }
            for node in self.nodes
            if node.answer
        ]
        return json.dumps({PATHWAY: seen, **route_goal(self.nodes[-1].sample)}, ensure_ascii=False)


def is_simulated(graph: AppGraph) -> bool:
    """Whether an app is opened from the launcher of the simulated devices."""
    return any(step.page == LAUNCHER for step in graph.opening)


def _in_simulated_app(steps: Sequence[PathStep]) -> Iterator[PathStep]:
    """Convert steps for the walk of simulated apps: it scrolls by itself, and `type` presses the field."""
    following: Iterable[PathStep | None] = (*steps[1:], None)
    for step, after in zip(steps, following, strict=True):
        is_focus = after is not None and after.operation == "replace" and after.target == step.target
        if step.operation == "scroll" or is_focus:
            continue
        target = _NUMBER.sub("", step.target)
        operation = "type" if step.operation == "replace" else step.operation
        # A menu is a page of the graph, but no page of the app.
        yield step.model_copy(update={"page": target.partition("/")[0], "operation": operation, "target": target})


class AtomicTasks(NamedTuple):
    """The atomic tasks that graphs offer."""

    reading: tuple[ReadingTask, ...]
    writing: tuple[WritingTask, ...]


def atomic_tasks(graphs: Sequence[AppGraph]) -> AtomicTasks:
    """Return the atomic tasks of graphs, each by its shortest route."""
    reading: list[ReadingTask] = []
    writing: list[WritingTask] = []
    for graph in graphs:
        for page, spec in graph.pages.items():
            for answer in spec.answers.values():
                ways = [way for way in routes_to(graph, page) if _is_short(way) and answer.of in _slots(way)]
                if ways:
                    reading.append(ReadingTask(min(ways, key=_length), answer))
        shortest: dict[tuple[str, str], Route] = {}
        for route in sorted(routes(graph), key=_length):
            fields = [name for _, name, slot in route.places if slot.kind is SlotKind.FIELD]
            # Filled twice, a field would need two values, but there is one answer.
            if len(fields) == len(set(fields)) and not route.final and _is_short(route) and checks_values(route):
                for slot in fields:
                    shortest.setdefault((route.end, slot), route)
        writing += [WritingTask(route, slot) for (_, slot), route in shortest.items()]
    return AtomicTasks(tuple(reading), tuple(writing))


def _slots(route: Route) -> list[str]:
    return [slot for move in route.moves for slot in route.slots_of(move)]


def _is_short(route: Route) -> bool:
    return len(_slots(route)) <= _MOST_SLOTS


def _length(route: Route) -> int:
    return len(route.moves) + len(_slots(route))
