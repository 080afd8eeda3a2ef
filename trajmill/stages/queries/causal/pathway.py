"""Causal pathways: chains of atomic tasks, with their path, start state and goal (NaturalGAIA 3.1, 3.2)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from trajmill.schemas.tables.query import CausalTask, PathStep, Platform, Slot, Source
from trajmill.stages.environments.screen_goal import PATHWAY
from trajmill.stages.environments.simulated.annotations import KnownSlot, PageMetadata, PathMetadata, SlotValue
from trajmill.stages.environments.simulated.reference_path import LAUNCHER
from trajmill.stages.graphs.base import AppGraph, GraphAnswer, SlotKind
from trajmill.stages.graphs.network import walkable
from trajmill.stages.graphs.recognise import fill
from trajmill.stages.queries.base import GoalFacts, QueryPlan, Written
from trajmill.stages.queries.graph.routes import Route, Setting, routes, routes_to
from trajmill.stages.queries.graph.source import (
    as_wish,
    known_slot,
    label,
    merged,
    navigation_words,
    path_metadata,
    route_goal,
    steps_of,
    wish_for,
)
from trajmill.stages.queries.templates import explicit_instruction, packaged_phrasings, tidy

SIZES = {1: (2, 2), 2: (3, 4), 3: (5, 7)}
"""By level, the fewest and the most atomic tasks (NaturalGAIA 3.4); one task alone hands nothing on."""
_HARD_APPS = 3
_MOST_SLOTS = 3
"""Most slots of one atomic task; one of them is its input."""
_NUMBER = re.compile(r"#\d+$")
_SPARE_STEPS = 10
_ACTIONS = {"type": 3, "open": 2}
_FOUND = ("of that name", "what you found")
"""The words for an earlier answer: after the name of an item, e.g. `the note of that name`, and as what is entered."""


class AtomicTask(NamedTuple):
    """A task in one app; its input is an item of a list, or is put into a field."""

    route: Route
    slot: str
    answer: GraphAnswer | None = None
    """The text that it looks up; None for a task that writes, which ends a pathway."""


class PathwayNode(NamedTuple):
    sample: Route
    slot: str
    answer: GraphAnswer | None
    input: str
    value: str

    @property
    def graph(self) -> AppGraph:
        return self.sample.graph

    def filled(self, part: Any) -> Any:
        """Fill in the annotation of an answer: the values of the slots, and `answer`."""
        return fill(part, {**{each.slot: each.value for each in self.sample.settings}, "answer": self.value})


class NodeSetting(NamedTuple):
    name: str
    """Its name on the query, with that of the app."""
    node: PathwayNode
    setting: Setting
    carried_from: str
    """The app in which the value is read; empty if the instruction names it."""


class CausalPathway(NamedTuple):
    """Atomic tasks; the answer of each is the input of the next."""

    nodes: tuple[PathwayNode, ...]
    several_devices: bool

    @property
    def task(self) -> str:
        return "causal." + "-".join(node.graph.app for node in self.nodes)

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (f"{n}_{each.name}", each.value) for n, node in enumerate(self.nodes) for each in node.sample.settings
        )

    @property
    def apps(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.graph.app for node in self.nodes))

    @property
    def level(self) -> int:
        """Its difficulty, 1 to 3, by its atomic tasks and apps (NaturalGAIA 3.4)."""
        level = next(level for level, (_, most) in SIZES.items() if len(self.nodes) <= most)
        return level if len(self.apps) >= _HARD_APPS else min(level, 2)

    def facts(self) -> GoalFacts:
        return GoalFacts(self._metadata(), tuple(self._known_slots()))

    def worded(self, heldout: bool, seed: int) -> Written:
        rng, kind = Random(seed), "devices" if self.several_devices else "pathway"
        template = packaged_phrasings(__package__)[kind].draw(heldout, rng)
        wishes = [_wish(node, rng, _FOUND if number else None) for number, node in enumerate(self.nodes)]
        steps = ", then ".join(wishes)
        if self.several_devices:
            named = zip(self.nodes, wishes, strict=True)
            steps = " ".join(f"On the {node.graph.platform}, {wish}." for node, wish in named)
        text = tidy(template.expand(self.task, {"steps": steps}, rng))
        # An answer is not said.
        told = {slot.name: slot.accepted for slot in self._known_slots() if slot.accepted}
        said = {name: next((each for each in words if each in text), words[0]) for name, words in told.items()}
        raw = explicit_instruction(self._metadata())
        return Written(raw, text, f"{self.task}/{template.id}", said, "causal-grammar-1")

    def plan(self) -> QueryPlan:
        path, several = self._path(), self.several_devices
        pages = [
            (node.graph, page)
            for node in self.nodes
            for page in dict.fromkeys((*(move.page for move in node.sample.moves), node.sample.end))
        ]
        # The start states of the apps, with all items that answers are read from.
        states: dict[Platform, dict[str, Any]] = {}
        # Each answer was seen in its turn, and the last screen is that of the last task.
        seen: list[dict[str, Any]] = []
        for node in self.nodes:
            prepared = node.filled(node.answer.prepare) if node.answer else {}
            state = merged(states.get(node.graph.platform, {}), node.graph.start_state)
            states[node.graph.platform] = merged(state, prepared)
            if node.answer:
                shown = {"target": node.filled(node.answer.target), "text": node.filled(node.answer.text)}
                seen.append({"showing": [shown], **({"device": node.graph.platform} if several else {})})
        start = {"devices": states} if several else states[self.nodes[0].graph.platform]
        rows: list[CausalTask] = []
        before: tuple[str, str] | None = None
        for number, node in enumerate(self.nodes, 1):
            # An instruction names the answer before it in braces, as in LightManus.
            told, answer = tidy(_wish(node, Random(0), before)), f"answer_{number}" if node.answer else ""
            device, app = node.graph.platform, node.graph.app
            rows.append(CausalTask(device=device, app=app, instruction=told, answer=answer, value=node.value))
            before = (f"{{answer_{number}}}",) * 2
        return QueryPlan(
            platform=self.nodes[0].graph.platform,
            apps=self.apps,
            source=Source.CAUSAL,
            pages=tuple(f"{graph.app}.{page}" for graph, page in pages),
            page_descriptions=tuple(graph.purpose_of(page) for graph, page in pages),
            slots=tuple(
                Slot(name=name, value=setting.value, said="", page=f"{node.graph.app}.{setting.page}")
                for name, node, setting, _ in self._settings()
            ),
            path=path,
            start_state=json.dumps(start, sort_keys=True, ensure_ascii=False),
            goal=json.dumps({PATHWAY: seen, **route_goal(self.nodes[-1].sample)}, ensure_ascii=False),
            difficulty=self.level,
            max_steps=2 * sum(_ACTIONS.get(step.operation, 1) for step in path) + _SPARE_STEPS,
            atomic_tasks=tuple(rows),
        )

    def _path(self) -> tuple[PathStep, ...]:
        steps: list[PathStep] = []
        device = self.nodes[0].graph.platform
        for node in self.nodes:
            if node.graph.platform is not device:
                device = node.graph.platform
                steps.append(PathStep(page=str(device), operation="switch", target=str(device)))
            if is_simulated(node.graph):
                steps.append(PathStep(page=LAUNCHER, operation="open", target=node.graph.title))
                # The walk of simulated apps scrolls by itself, and `type` presses the field.
                own = steps_of(node.sample)
                for step, after in zip(own, (*own[1:], None), strict=True):
                    is_focus = after is not None and after.operation == "replace" and after.target == step.target
                    if step.operation != "scroll" and not is_focus:
                        target = _NUMBER.sub("", step.target)
                        operation = "type" if step.operation == "replace" else step.operation
                        # A menu is a page of the graph, but no page of the app.
                        changed = {"page": target.partition("/")[0], "operation": operation, "target": target}
                        steps.append(step.model_copy(update=changed))
            else:
                steps += (*node.graph.opening, *steps_of(node.sample))
            page = f"{node.graph.app}.{node.sample.end}"
            if node.answer:
                steps.append(PathStep(page=page, operation="scroll", target=node.filled(node.answer.target)))
        return (*steps, PathStep(page=page, operation="finish", target=""))

    def _settings(self) -> Iterator[NodeSetting]:
        before = ""
        for node in self.nodes:
            for setting in node.sample.settings:
                carried = before if setting.slot == node.slot else ""
                yield NodeSetting(f"{node.graph.app.replace('-', '_')}_{setting.name}", node, setting, carried)
            before = node.graph.name

    def _known_slots(self) -> Iterator[KnownSlot]:
        """Yield the words that an instruction must have, and the answers that it must not have."""
        for each in self._settings():
            slot = known_slot(each.setting)._replace(name=each.name, refused=())
            # What is prepared is no value of the app, so that its own values stay refused.
            yield slot._replace(accepted=(), refused=(each.setting.value,)) if each.carried_from else slot

    def _metadata(self) -> PathMetadata:
        by_place = {(each.node.graph.app, each.setting.name): each for each in self._settings()}

        def renamed(node: PathwayNode, values: Sequence[SlotValue]) -> Iterator[SlotValue]:
            for value in values:
                setting = by_place[node.graph.app, value.name]
                words = () if setting.carried_from else value.words
                yield value._replace(name=setting.name, words=words, carried_from=setting.carried_from)

        pages: list[PageMetadata] = []
        constraints: list[SlotValue] = []
        purposes: list[str] = []
        for node in self.nodes:
            part = path_metadata(node.sample)
            pages += (page._replace(settings=tuple(renamed(node, page.settings))) for page in part.pages)
            constraints += renamed(node, part.constraints)
            if node.answer is None:
                purposes.append(f"Put the answer into {node.graph.name}.")
            else:
                looked_up = node.answer.name.replace(f"{{{node.slot}}}", "").strip() or "a text"
                purposes.append(f"Find {looked_up} in {node.graph.name}.")
        platform = self.nodes[0].graph.platform
        return PathMetadata(self.task, " ".join(purposes), platform, tuple(pages), tuple(constraints))


def is_simulated(graph: AppGraph) -> bool:
    return any(step.page == LAUNCHER for step in graph.opening)


def _wish(node: PathwayNode, rng: Random, found: tuple[str, str] | None) -> str:
    """Word one atomic task; without words for an earlier answer the input itself is named."""
    wishes = [wish_for(each, rng).text for each in node.sample.settings if each.slot != node.slot]
    place = f"{{{node.slot}}}"
    if node.answer:
        named = node.answer.name if place in node.answer.name else f"{node.answer.name or 'the text'} of {place}"
        item = found[0] if found else f'"{node.input}"'
        wishes.append(f"{rng.choice(('find out', 'look up'))} {named.replace(place, item)}")
    else:
        text, moves = found[1] if found else f'"{node.input}"', node.sample.moves
        sentence = next((move.transition.does for move in moves if place in move.transition.does), "")
        if sentence:
            wishes.append(as_wish(sentence).replace(place, text))
        else:
            [setting] = [each for each in node.sample.settings if each.slot == node.slot]
            wishes.append(f'{rng.choice(("enter", "put in"))} {text} as "{label(setting)}"')
        entered = max(n for n, move in enumerate(moves) if any(each.slot == node.slot for each in move.settings))
        after = [each for each in moves[entered + 1 :] if each not in node.sample.acts]
        wishes += navigation_words(node.graph, after, "go to")
    return f"{' and '.join(wishes)} in {node.graph.name}"


def atomic_tasks(graphs: Sequence[AppGraph]) -> tuple[list[AtomicTask], list[AtomicTask]]:
    """Return the reading and the writing tasks of graphs, each by its shortest route."""

    def slots(route: Route) -> list[str]:
        return [setting.slot for move in route.moves for setting in move.settings]

    def length(route: Route) -> int:
        return len(route.moves) + len(slots(route))

    reading: list[AtomicTask] = []
    writing: dict[tuple[str, str, str], AtomicTask] = {}
    for graph in graphs:
        for page, spec in graph.pages.items():
            for answer in spec.answers.values():
                ways = [way for way in routes_to(walkable(graph), graph, page) if answer.of in slots(way)]
                ways = [way for way in ways if len(slots(way)) <= _MOST_SLOTS]
                if ways:
                    reading.append(AtomicTask(min(ways, key=length), answer.of, answer))
        for route in sorted(routes(graph), key=length):
            fields = [each.slot for each in route.settings if each.spec.kind is SlotKind.FIELD]
            # Filled twice, a field would need two values, but there is one answer.
            if len(fields) == len(set(fields)) and not route.final and len(slots(route)) <= _MOST_SLOTS:
                for slot in fields:
                    writing.setdefault((graph.app, route.end, slot), AtomicTask(route, slot))
    return reading, list(writing.values())
