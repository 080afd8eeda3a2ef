"""Draws causal pathways: which atomic tasks follow each other, and which answers they hand on (NaturalGAIA 3.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from random import Random
from typing import NamedTuple, TypeVar

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Split
from trajmill.stages.graphs.base import AppGraph, GraphAnswer
from trajmill.stages.queries.causal.base import (
    EASY_TASKS,
    MEDIUM_TASKS,
    MOST_TASKS,
    CausalPathway,
    PathwayNode,
    ReadingTask,
    WritingTask,
)
from trajmill.stages.queries.causal.nodes import AtomicTasks
from trajmill.stages.queries.causal.path import is_simulated
from trajmill.stages.queries.live.base import Route
from trajmill.stages.queries.live.divide import UnseenApps
from trajmill.stages.queries.live.sampling import places_of, sample_of, values_of

_SIZES: Mapping[int, tuple[int, int]] = {
    1: (2, EASY_TASKS),
    2: (EASY_TASKS + 1, MEDIUM_TASKS),
    3: (MEDIUM_TASKS + 1, MOST_TASKS),
}
"""By level, the fewest and the most atomic tasks; one task alone hands nothing on."""
_TRIES = 60
"""Tries to find a pathway of a level; most chains of atomic tasks hand on nothing that the next one can use."""
_MOST_DRAWS = 50
"""Draws in a row without a new pathway, after which a split has no more."""
_SHARES = (Split.VALIDATION, Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS)
_TENTHS = 10
"""Each held-out split has a tenth of the items that pathways begin with; training has the others."""


TaskT = TypeVar("TaskT", ReadingTask, WritingTask)


class DrawnPathway(NamedTuple):
    """A pathway that may become a query."""

    pathway: CausalPathway
    split: Split
    heldout: bool
    """Whether it must have a phrasing that training never sees."""

    @property
    def task(self) -> str:
        """Name of its task."""
        return self.pathway.task


class DrawingRules(NamedTuple):
    """Which pathways are drawn."""

    level_weights: tuple[float, ...]
    unseen: UnseenApps
    several_devices: bool
    """Whether a pathway may go from one device to another."""
    seed: int
    """Decides what is held out."""
    draw: int = 0
    """Another one gives other pathways."""


def drawn_pathways(tasks: AtomicTasks, split: Split, rules: DrawingRules) -> Iterator[DrawnPathway]:
    """The pathways of a split, each goal once, until none comes any more."""
    rng = Random(content_id("causal", rules.seed, split, rules.draw))
    titles = tuple(files("trajmill.stages.queries.causal").joinpath("titles.txt").read_text().split("\n")[:-1])
    drawing = _Drawing(tasks, split, rules, titles, rng)
    seen: set[object] = set()
    fruitless = 0
    while fruitless < _MOST_DRAWS:
        pathway = drawing.draw()
        fruitless += 1
        if pathway is not None and (pathway.task, pathway.key) not in seen:
            seen.add((pathway.task, pathway.key))
            fruitless = 0
            odd = split is Split.HELDOUT_APPS and len(seen) % 2 == 0
            yield DrawnPathway(pathway, split, split is Split.HELDOUT_PHRASINGS or odd)


class _Drawing(NamedTuple):
    """Draws one pathway after the other."""

    tasks: AtomicTasks
    split: Split
    rules: DrawingRules
    titles: tuple[str, ...]
    rng: Random

    def draw(self) -> CausalPathway | None:
        """A pathway; None if there is none of the level that was drawn."""
        [level] = self.rng.choices(range(1, 4), self.rules.level_weights)
        for _ in range(_TRIES):
            chain = self._chain(self.rng.randint(*_SIZES[level]))
            nodes = self._with_values(*chain) if chain is not None else None
            if nodes is not None and CausalPathway(nodes).level == level:
                return CausalPathway(nodes)
        return None

    def _chain(self, size: int) -> tuple[tuple[ReadingTask, ...], WritingTask] | None:
        """Atomic tasks in different apps: some that read, then one that writes."""
        used: list[AppGraph] = []
        reading: list[ReadingTask] = []
        for left in range(size - 1, 0, -1):
            fitting = [task for task in self.tasks.reading if self._fits(task.graph, used)]
            if left > 1:
                # One of a few answers, such as a size, names nothing that can be looked up.
                fitting = [task for task in fitting if not task.answer.values]
            if not fitting:
                return None
            reading.append(self._by_app(fitting))
            used.append(reading[-1].graph)
        writing = [task for task in self.tasks.writing if self._fits(task.graph, used)]
        last = self._by_app(writing) if writing else None
        if last is None:
            return None
        apps = {graph.app for graph in (*used, last.graph)}
        if self.split is Split.HELDOUT_APPS and apps.isdisjoint(self.rules.unseen.heldout):
            return None
        return tuple(reading), last

    def _by_app(self, fitting: Sequence[TaskT]) -> TaskT:
        """One of some atomic tasks; each device is as likely as another, and so is each app on it."""
        device = self.rng.choice(sorted({task.graph.platform for task in fitting}))
        app = self.rng.choice(sorted({task.graph.app for task in fitting if task.graph.platform is device}))
        return self.rng.choice([task for task in fitting if task.graph.app == app])

    def _fits(self, graph: AppGraph, used: Collection[AppGraph]) -> bool:
        """Whether an app can come after some others; a live app has its device for itself."""
        beside = [each for each in used if each.platform is graph.platform]
        if any(each.app == graph.app for each in used) or not self._is_allowed(graph.app):
            return False
        if used and not self.rules.several_devices and not beside:
            return False
        return all(is_simulated(each) and is_simulated(graph) for each in beside)

    def _is_allowed(self, app: str) -> bool:
        unseen = self.rules.unseen
        if self.split is Split.HELDOUT_APPS:
            return True
        return app not in unseen.heldout and (self.split is Split.VALIDATION or app not in unseen.validation)

    def _with_values(self, reading: tuple[ReadingTask, ...], writing: WritingTask) -> tuple[PathwayNode, ...] | None:
        """The atomic tasks with the values that they hand on; None if an answer is no input of the next task."""
        nodes: list[PathwayNode] = []
        starts = [each for each in self._inputs(reading[0].answer) if self._share_of(each) in (None, self.split)]
        value = self.rng.choice(starts) if starts else None
        for number, task in enumerate(reading):
            if value is None:
                return None
            following = reading[number + 1].answer if number + 1 < len(reading) else None
            taken = {node.input for node in nodes} | {value}
            told = self._told(task.answer, value, following, taken)
            nodes.append(self._node(task.route, task.answer.of, value, task.answer, told or ""))
            value = told
        if value is None:
            return None
        return (*nodes, self._node(writing.route, writing.slot, value, None, ""))

    def _inputs(self, answer: GraphAnswer) -> tuple[str, ...]:
        """The items that can be asked about."""
        return (answer.names or self.titles) if answer.prepare else tuple(answer.known)

    def _told(self, answer: GraphAnswer, value: str, following: GraphAnswer | None, taken: set[str]) -> str | None:
        """The answer about an item, which the following task can use; None if there is none."""
        if not answer.prepare:
            offered: Collection[str] = (answer.known[value],)
        elif following is None or answer.values:
            offered = answer.values or self.titles
        else:
            offered = self._inputs(following)
        fitting = offered if following is None else set(self._inputs(following)).intersection(offered)
        usable = sorted(each for each in fitting if each not in taken)
        return self.rng.choice(usable) if usable else None

    def _share_of(self, value: str) -> Split | None:
        """The split that an item begins pathways of; None for any."""
        if self.split is Split.HELDOUT_APPS:
            return None
        share = int(content_id("share", self.rules.seed, value), 16) % _TENTHS
        return _SHARES[share] if share < len(_SHARES) else Split.TRAIN

    def _node(self, route: Route, slot: str, value: str, answer: GraphAnswer | None, told: str) -> PathwayNode:
        others = [
            value if name == slot else self.rng.choice(values_of(route.graph.pages[page].slots[name]) or ("",))
            for page, name in places_of(route)
        ]
        return PathwayNode(sample_of(route, others), slot, value, answer, told)
