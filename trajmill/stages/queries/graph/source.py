"""Queries from the graphs of apps (`source = graph`), in any environment (GUI-Owl 6.2)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import PathStep, Platform, Slot, Source, Split
from trajmill.stages.graphs.base import AppGraph, SlotKind
from trajmill.stages.graphs.file import read_graph
from trajmill.stages.graphs.operations import set_slot, take
from trajmill.stages.queries.base import (
    Candidate,
    GoalFacts,
    Offer,
    QueryPlan,
    SourceContext,
    SplitCandidates,
    UnseenApps,
    Written,
    difficulty,
    step_limit,
)
from trajmill.stages.queries.graph.goal import goal_json
from trajmill.stages.queries.graph.routes import RouteMove, RouteSample, page_name, samples_by_task
from trajmill.stages.queries.graph.wording import page_description, route_facts, worded_route
from trajmill.stages.queries.spec import GraphSourceSpec
from trajmill.stages.queries.splits import (
    HELDOUT_GOALS,
    SPARE_GOALS,
    is_held_out_phrasing,
    rephrasings,
    share_goals,
)

_FEWEST_STEPS = 10
"""Smallest step limit, because an agent may have to wait for a real program."""
_HEAD_START = 3
"""Goals taken from each task before tasks with one more part, or without held-out goals, take their turn."""


class RouteGoal(NamedTuple):
    """A route and its values as a goal."""

    sample: RouteSample

    @property
    def task(self) -> str:
        """Name of its task."""
        return self.sample.task

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Equal for goals of a task that ask for the same thing."""
        return self.sample.key

    def facts(self) -> GoalFacts:
        """The facts for a language model."""
        return route_facts(self.sample)

    def worded(self, heldout: bool, seed: int) -> Written:
        """A wish from the annotations of the graph, in a template."""
        return worded_route(self.sample, heldout, seed)

    def plan(self, said: Mapping[str, str]) -> QueryPlan:
        """The columns that words do not decide."""
        graph, path = self.sample.graph, route_path(self.sample)
        pages = tuple(dict.fromkeys(step.page for step in path if step.page.startswith(f"{graph.app}.")))
        return QueryPlan(
            platform=graph.platform,
            apps=(graph.app,),
            source=Source.GRAPH,
            pages=pages,
            page_descriptions=tuple(page_description(graph, page.partition(".")[2]) for page in pages),
            slots=_slots(self.sample, said),
            path=path,
            start_state=graph.start_json,
            goal=goal_json(self.sample),
            difficulty=difficulty(path, 1),
            max_steps=max(_FEWEST_STEPS, step_limit(path)),
        )


class GraphSource(NamedTuple):
    """The graphs of apps."""

    graphs: tuple[AppGraph, ...]
    wanted: Mapping[Split, int]

    async def candidates(self, context: SourceContext) -> Offer:
        """Goals of all splits, the tasks of all graphs in turn; each is a route and values on it."""
        seed = context.fresh.seed if context.fresh else context.seed
        wanted = dict.fromkeys(Split, 0) if context.fresh else self.wanted
        found = split_candidates(self.graphs, wanted, context.unseen, seed)
        return Offer(tuple(SplitCandidates(split, wanted[split], [found[split]]) for split in Split))


def graph_source(settings: GraphSourceSpec) -> GraphSource:
    """Read the graphs of a configuration.

    Raises:
        BadInputError: no file is named, or one is no graph.
    """
    if not settings.files:
        raise BadInputError("graphs.files is missing: name the files of the apps' graphs (see graphs.md)")
    return GraphSource(tuple(map(read_graph, settings.files)), {split: settings.wanted(split) for split in Split})


def route_path(sample: RouteSample) -> tuple[PathStep, ...]:
    """The steps of a sample, from a reset to the end."""
    finish = PathStep(page=f"{sample.graph.app}.{sample.end}", operation="finish", target="")
    return (*sample.graph.opening, *steps_of(sample), finish)


def steps_of(sample: RouteSample) -> tuple[PathStep, ...]:
    """The steps of a sample, from the app's first page on."""
    graph = sample.graph
    moves = [step for move in sample.moves for step in _steps_of_move(graph, move)]
    last = [step for setting in sample.final for step in set_slot(graph, setting.page, setting.slot, setting.value)]
    return (*moves, *last)


def _steps_of_move(graph: AppGraph, move: RouteMove) -> tuple[PathStep, ...]:
    """The steps of a move; an item of a list may have to be scrolled to, where there is a wheel."""
    steps = take(graph, move.page, move.transition, move.values)
    pressed = graph.pages[move.page].slots.get(move.transition.by)
    if pressed is None or pressed.kind is not SlotKind.LIST or graph.platform is Platform.PHONE:
        return steps
    return (*steps[:-1], steps[-1].model_copy(update={"operation": "scroll"}), steps[-1])


def _slots(sample: RouteSample, said: Mapping[str, str]) -> tuple[Slot, ...]:
    app, named = sample.graph.app, page_name(sample.graph, sample.end)
    slots = tuple(
        Slot(name=each.name, value=each.value, said=said.get(each.name, ""), page=f"{app}.{each.page}")
        for each in sample.settings
    )
    # Without values the page itself is the value, so that the ends of one app are divided between the splits.
    return slots or (Slot(name="page", value=named, said=said.get("page", ""), page=f"{app}.{sample.end}"),)


class _TaskGoals(NamedTuple):
    """The goals that one task gives to a split."""

    goals: tuple[RouteSample, ...]
    first: int
    """Turn of its first goal."""


def split_candidates(
    graphs: Sequence[AppGraph], wanted: Mapping[Split, int], unseen: UnseenApps, seed: int
) -> dict[Split, Iterator[Candidate]]:
    """The candidates of each split, its tasks in turn; held-out goals are other values of tasks that training has.

    Args:
        graphs: the graphs of the apps.
        wanted: by split, the number of queries.
        unseen: whole apps for the held-out and the validation split.
        seed: decides on the values.
    """
    shares: dict[Split, list[_TaskGoals]] = {split: [] for split in Split}
    by_graph = [(graph.app, samples_by_task(graph, seed)) for graph in graphs]
    tasks = sum(len(of_graph) for _, of_graph in by_graph)
    of_task = {split: SPARE_GOALS * math.ceil(wanted[split] / max(tasks, 1)) for split in HELDOUT_GOALS}
    # No more than training will have, so that the held-out goals combine values that it really sees.
    of_task[Split.TRAIN] = max(_HEAD_START, math.ceil(wanted[Split.TRAIN] / max(tasks, 1)))
    for app, of_graph in by_graph:
        for goals in of_graph.values():
            given = share_goals(goals, of_task)
            if app in unseen.heldout:
                given = {Split.HELDOUT_APPS: goals}
            elif app in unseen.validation:
                given = {Split.VALIDATION: goals}
            first = _first_turn(goals, any(given.get(split) for split in HELDOUT_GOALS))
            for split, of_split in given.items():
                shares[split].append(_TaskGoals(of_split, first))
    return {split: _in_turn(split, shares[split], seed) for split in Split}


def _first_turn(goals: Sequence[RouteSample], heldout: bool) -> int:
    """The turn in which a task begins.

    Tasks that ask for more than one thing begin later: there are many, and an agent learns the single ones first.
    So do those of which nothing is held out: without other values of its tasks, what is held out could not be learned.
    """
    return _HEAD_START * (goals[0].parts - 1 + (0 if heldout else 1))


def _in_turn(split: Split, tasks: Sequence[_TaskGoals], seed: int) -> Iterator[Candidate]:
    """One goal of each task, then the next of each; then all again in other words."""
    for turn in rephrasings(split):
        for number in range(max((task.first + len(task.goals) for task in tasks), default=0)):
            for goals, first in tasks:
                if first <= number < first + len(goals):
                    goal = RouteGoal(goals[number - first])
                    words = int(content_id("live", seed, goal.task, goal.key, split, turn), 16)
                    yield Candidate(goal, split, is_held_out_phrasing(split, turn + number), words)
