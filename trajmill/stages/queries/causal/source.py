"""Causal pathways: chains of atomic tasks, the answer of each is the input of the next (NaturalGAIA 3.1, 3.2)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from importlib.resources import files
from random import Random
from typing import Any, NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import CausalTask, PathStep, Platform, Slot, Source, Split
from trajmill.stages.environments.kinds import AppFilesSpec, DevicesTogetherSpec
from trajmill.stages.environments.screen_goal import PATHWAY
from trajmill.stages.environments.simulated.annotations import KnownSlot, PageMetadata, PathMetadata, SlotValue
from trajmill.stages.environments.simulated.reference_path import LAUNCHER
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.graphs.base import AppGraph, GraphAnswer, SlotKind
from trajmill.stages.graphs.file import read_graph
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.graphs.network import walkable
from trajmill.stages.graphs.recognise import fill
from trajmill.stages.graphs.values import may_hold, values_of
from trajmill.stages.queries.base import Candidate, GoalFacts, Offer, QueryPlan, SourceContext, Written
from trajmill.stages.queries.graph.routes import Route, Setting, routes, routes_to
from trajmill.stages.queries.graph.source import merged, path_metadata, route_goal, steps_of
from trajmill.stages.queries.graph.wishes import as_wish, navigation_words
from trajmill.stages.queries.leaks import is_held_out_phrasing
from trajmill.stages.queries.spec import CausalSpec
from trajmill.stages.queries.templates import explicit_instruction, packaged_phrasings, tidy

_TRIES = 60
"""Tries to find a pathway of a level; most chains of atomic tasks hand on nothing that the next one can use."""
_MOST_DRAWS = 50
_SHARES = (Split.VALIDATION, Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS)
_TENTHS = 10
"""Each held-out split has a tenth of the items that pathways begin with; training has the others."""


class CausalSource(NamedTuple):
    settings: CausalSpec
    graphs: tuple[AppGraph, ...]

    async def candidates(self, context: SourceContext) -> Offer:
        """Return pathways of all splits. Raises BadInputError if the graphs offer no pathway."""
        reading, writing = atomic_tasks(self.graphs)
        if not (reading and writing):
            missing = "answer that can be looked up" if writing else "field that can be filled"
            raise BadInputError(f"causal: the graphs have no {missing}; see `answers` in causal.md")
        titles = tuple(files(__package__).joinpath("titles.txt").read_text().split("\n")[:-1])

        def stream(split: Split) -> Iterator[Candidate]:
            rng = Random(content_id("causal", context.seed, split, context.fresh.seed if context.fresh else 0))
            return _Sampler(reading, writing, split, context, titles, rng).candidates(self.settings.level_weights)

        return Offer.of(stream, {split: self.settings.wanted(split) for split in Split})


def causal_source(settings: CausalSpec, environment: EnvironmentSpec) -> CausalSource:
    """Read the graphs of the configuration and those of the environment's simulated apps."""
    described = environment.described_apps() if isinstance(environment, AppFilesSpec | DevicesTogetherSpec) else ()
    return CausalSource(settings, (*map(read_graph, settings.files), *map(graph_of_app, described)))


class _Sampler(NamedTuple):
    reading: Sequence[AtomicTask]
    writing: Sequence[AtomicTask]
    split: Split
    context: SourceContext
    titles: tuple[str, ...]
    rng: Random

    @property
    def several_devices(self) -> bool:
        return isinstance(self.context.environment, DevicesTogetherSpec)

    def candidates(self, level_weights: Sequence[float]) -> Iterator[Candidate]:
        seen: set[object] = set()
        fruitless = 0
        while fruitless < _MOST_DRAWS:
            [level] = self.rng.choices(range(1, 4), level_weights)
            drawn = (self._chain(self.rng.randint(*SIZES[level])) for _ in range(_TRIES))
            pathways = (self._with_values(chain) for chain in drawn if chain)
            pathway = next((each for each in pathways if each is not None and each.level == level), None)
            fruitless += 1
            if pathway is not None and (pathway.task, pathway.key) not in seen:
                seen.add((pathway.task, pathway.key))
                fruitless = 0
                words = int(content_id("causal", self.context.seed, pathway.task, pathway.key, self.split), 16)
                yield Candidate(pathway, self.split, is_held_out_phrasing(self.split, len(seen) + 1), words)

    def _chain(self, size: int) -> list[AtomicTask]:
        """Draw atomic tasks in different apps, some that read, then one that writes; none if they do not fit."""
        chain: list[AtomicTask] = []
        for left in range(size - 1, -1, -1):
            # One of a few answers, such as a size, names nothing that can be looked up.
            reading = [task for task in self.reading if left == 1 or not (task.answer and task.answer.values)]
            used = [task.route.graph for task in chain]
            writing = [] if left else [task for task in self.writing if task.takes(chain[-1].answer)]
            fitting = [task for task in (reading if left else writing) if self._fits(task.route.graph, used)]
            if not fitting:
                return []
            # Each device is as likely as another, and so is each app on it.
            graphs = [task.route.graph for task in fitting]
            device = self.rng.choice(sorted({graph.platform for graph in graphs}))
            app = self.rng.choice(sorted({graph.app for graph in graphs if graph.platform is device}))
            chain.append(self.rng.choice([task for task in fitting if task.route.graph.app == app]))
        apps = {task.route.graph.app for task in chain}
        is_unseen = self.split is not Split.HELDOUT_APPS or not apps.isdisjoint(self.context.unseen.heldout)
        return chain if is_unseen else []

    def _fits(self, graph: AppGraph, used: Collection[AppGraph]) -> bool:
        """Whether an app can come after some others; a live app has its device for itself."""
        unseen, split = self.context.unseen, self.split
        is_kept = graph.app in unseen.heldout or (split is not Split.VALIDATION and graph.app in unseen.validation)
        if any(each.app == graph.app for each in used) or (is_kept and split is not Split.HELDOUT_APPS):
            return False
        on_device = [each for each in used if each.platform is graph.platform]
        if used and not self.several_devices and not on_device:
            return False
        return all(is_simulated(each) and is_simulated(graph) for each in on_device)

    def _with_values(self, chain: Sequence[AtomicTask]) -> CausalPathway | None:
        first, nodes = chain[0].answer, list[PathwayNode]()
        assert first is not None
        starts = list(filter(self._may_begin, self._inputs(first)))
        value = self.rng.choice(starts) if starts else None
        for task, following in zip(chain, (*chain[1:], None), strict=True):
            if value is None:
                return None
            told: str | None = ""
            if task.answer and following:
                told = self._answer(task.answer, value, following.answer, {value, *(node.input for node in nodes)})
            others = [
                value if each.slot == task.slot else self.rng.choice(values_of(each.spec) or ("",))
                for each in task.route.settings
            ]
            sample, told_by = task.route.with_values(others), nodes[-1].graph.name if nodes else ""
            nodes.append(PathwayNode(sample, task.slot, task.answer, value, told or "", told_by))
            value = told
        return CausalPathway(tuple(nodes), self.several_devices)

    def _inputs(self, answer: GraphAnswer) -> tuple[str, ...]:
        return (answer.names or self.titles) if answer.prepare else tuple(answer.known)

    def _answer(self, answer: GraphAnswer, value: str, following: GraphAnswer | None, taken: set[str]) -> str | None:
        """Draw the answer about an item, which the following task can use; None if there is none."""
        offered: Collection[str] = answer.values or self.titles
        if not answer.prepare:
            offered = (answer.known[value],)
        elif following is not None and not answer.values:
            offered = self._inputs(following)
        fitting = offered if following is None else set(self._inputs(following)).intersection(offered)
        usable = sorted(each for each in fitting if each not in taken)
        return self.rng.choice(usable) if usable else None

    def _may_begin(self, value: str) -> bool:
        """Whether pathways of the split may begin with an item; those of held-out apps begin with any."""
        share = int(content_id("share", self.context.seed, value), 16) % _TENTHS
        of_item = _SHARES[share] if share < len(_SHARES) else Split.TRAIN
        return self.split in (Split.HELDOUT_APPS, of_item)


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
    route: Route
    slot: str
    answer: GraphAnswer | None = None
    """The text that it looks up; None for a task that writes, which ends a pathway."""

    def takes(self, answer: GraphAnswer | None) -> bool:
        """Whether an answer may be entered here."""
        [slot] = {each.spec.target: each.spec for each in self.route.settings if each.slot == self.slot}.values()
        return answer is None or may_hold(slot, answer)


class PathwayNode(NamedTuple):
    sample: Route
    slot: str
    answer: GraphAnswer | None
    input: str
    value: str
    told_by: str
    """Name of the app in which the input is read; empty if the instruction names it."""

    @property
    def graph(self) -> AppGraph:
        return self.sample.graph

    def named(self, name: str) -> str:
        return f"{self.graph.app.replace('-', '_')}_{name}"

    def is_told(self, setting: Setting) -> bool:
        return bool(self.told_by) and setting.slot == self.slot

    def renamed(self, values: Sequence[SlotValue]) -> Iterator[SlotValue]:
        told = {each.name for each in self.sample.settings if self.is_told(each)}
        for value in values:
            named = value._replace(name=self.named(value.name))
            yield named._replace(words=(), carried_from=self.told_by) if value.name in told else named

    def filled(self, part: Any) -> Any:
        """Fill in the annotation of an answer: the values of the slots, and `answer`."""
        return fill(part, {**{each.slot: each.value for each in self.sample.settings}, "answer": self.value})


class CausalPathway(NamedTuple):
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
        pages: dict[str, str] = {}
        # The start states of the apps, with all items that answers are read from.
        states: dict[Platform, dict[str, Any]] = {}
        # Each answer was seen in its turn, and the last screen is that of the last task.
        seen: list[dict[str, Any]] = []
        rows: list[CausalTask] = []
        for number, node in enumerate(self.nodes):
            # An instruction names the answer before it in braces, as in LightManus.
            told = tidy(_wish(node, Random(0), (f"{{answer_{number}}}",) * 2 if number else None))
            for page in (*(move.page for move in node.sample.moves), node.sample.end):
                pages[f"{node.graph.app}.{page}"] = node.graph.purpose_of(page)
            device, app, answer = node.graph.platform, node.graph.app, f"answer_{number + 1}" if node.answer else ""
            rows.append(CausalTask(device=device, app=app, instruction=told, answer=answer, value=node.value))
            prepared = node.filled(node.answer.prepare) if node.answer else {}
            states[device] = merged(merged(states.get(device, {}), node.graph.start_state), prepared)
            if node.answer:
                shown = {"target": node.filled(node.answer.target), "text": node.filled(node.answer.text)}
                seen.append({"showing": [shown], **({"device": device} if several else {})})
        start = {"devices": states} if several else states[self.nodes[0].graph.platform]
        return QueryPlan(
            platform=self.nodes[0].graph.platform,
            apps=self.apps,
            source=Source.CAUSAL,
            pages=pages,
            slots=tuple(
                Slot(name=node.named(each.name), value=each.value, said="", page=f"{node.graph.app}.{each.page}")
                for node in self.nodes
                for each in node.sample.settings
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

    def _known_slots(self) -> Iterator[KnownSlot]:
        """Yield the words that an instruction must have, and the answers that it must not have."""
        for node in self.nodes:
            for each in node.sample.settings:
                slot = each.known._replace(name=node.named(each.name), refused=())
                # What is prepared is no value of the app, so that its own values stay refused.
                yield slot._replace(accepted=(), refused=(each.value,)) if node.is_told(each) else slot

    def _metadata(self) -> PathMetadata:
        pages: list[PageMetadata] = []
        constraints: list[SlotValue] = []
        purposes: list[str] = []
        for node in self.nodes:
            part = path_metadata(node.sample)
            pages += (page._replace(settings=tuple(node.renamed(page.settings))) for page in part.pages)
            constraints += node.renamed(part.constraints)
            looked_up = node.answer and (node.answer.name.replace(f"{{{node.slot}}}", "").strip() or "a text")
            done = f"Find {looked_up} in" if looked_up else "Put the answer into"
            purposes.append(f"{done} {node.graph.name}.")
        platform = self.nodes[0].graph.platform
        return PathMetadata(self.task, " ".join(purposes), platform, tuple(pages), tuple(constraints))


def is_simulated(graph: AppGraph) -> bool:
    return any(step.page == LAUNCHER for step in graph.opening)


def _wish(node: PathwayNode, rng: Random, found: tuple[str, str] | None) -> str:
    """Word one atomic task; without words for an earlier answer the input itself is named."""
    wishes = [each.wish(rng).text for each in node.sample.settings if each.slot != node.slot]
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
            wishes.append(f'{rng.choice(("enter", "put in"))} {text} as "{setting.label}"')
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
        for route in sorted((each for each in routes(graph) if PATHWAY not in route_goal(each)), key=length):
            fields = [each.slot for each in route.settings if each.spec.kind is SlotKind.FIELD]
            # Filled twice, a field would need two values, but there is one answer.
            if len(fields) == len(set(fields)) and not route.final and len(slots(route)) <= _MOST_SLOTS:
                for slot in fields:
                    writing.setdefault((graph.app, route.end, slot), AtomicTask(route, slot))
    return reading, list(writing.values())
