"""Causal pathways: chains of atomic tasks, the answer of each is the input of the next (NaturalGAIA 3.1, 3.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from importlib.resources import files
from random import Random
from typing import NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.kinds import DevicesTogetherSpec, RunsApps
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.graphs.base import AppGraph, GraphAnswer
from trajmill.stages.graphs.file import read_graph
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.queries.base import Candidate, Offer, SourceContext
from trajmill.stages.queries.causal.pathway import (
    SIZES,
    AtomicTask,
    CausalPathway,
    PathwayNode,
    atomic_tasks,
    is_simulated,
)
from trajmill.stages.queries.graph.routes import values_of
from trajmill.stages.queries.leaks import is_held_out_phrasing
from trajmill.stages.queries.spec import CausalSpec

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
    described = environment.described_apps() if isinstance(environment, RunsApps) else ()
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
            fitting = [task for task in (reading if left else self.writing) if self._fits(task.route.graph, used)]
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
        starts = [each for each in self._inputs(first) if self._may_begin(each)]
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
            nodes.append(PathwayNode(task.route.with_values(others), task.slot, task.answer, value, told or ""))
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
