"""Queries from the graphs of apps (`source = graph`), in any environment (GUI-Owl 6.2)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import PathStep, Platform, Slot, Source, Split
from trajmill.stages.environments.screen_goal import ScreenGoal, Showing
from trajmill.stages.graphs.base import AppGraph, Feature, GraphSlot, SlotKind
from trajmill.stages.graphs.file import read_graph
from trajmill.stages.graphs.operations import OFF, set_slot, take
from trajmill.stages.graphs.recognise import fill, filled
from trajmill.stages.queries.base import (
    Candidate,
    GoalFacts,
    Offer,
    QueryPlan,
    SourceContext,
    SplitCandidates,
    Written,
    difficulty,
    goal_parts,
    step_limit,
)
from trajmill.stages.queries.graph.routes import RouteMove, RouteSample, page_name, samples_by_task, slot_names
from trajmill.stages.queries.graph.wording import page_description, route_facts, worded_route
from trajmill.stages.queries.spec import GraphSourceSpec
from trajmill.stages.queries.splits import HELDOUT_GOALS, SPARE_GOALS, is_held_out_phrasing, rephrasings, share_goals

_FEWEST_STEPS = 10
_HEAD_START = 3
"""Goals taken from each task before tasks with one more part, or without held-out goals, take their turn."""
_MARKED = ("checked", "selected")
"""States of an option that was chosen."""


class RouteGoal(NamedTuple):
    """A route and its values as a goal."""

    sample: RouteSample

    @property
    def task(self) -> str:
        """Name of its task."""
        return self.sample.task

    def facts(self) -> GoalFacts:
        """Return the facts for a language model."""
        return route_facts(self.sample)

    def worded(self, heldout: bool, seed: int) -> Written:
        """Put the annotations of the graph into a template."""
        return worded_route(self.sample, heldout, seed)

    def plan(self, said: Mapping[str, str]) -> QueryPlan:
        """Return the other columns of the query."""
        sample, graph, path = self.sample, self.sample.graph, route_path(self.sample)
        pages = tuple(dict.fromkeys(step.page for step in path if step.page.startswith(f"{graph.app}.")))
        values = [(each.name, each.value, each.page) for each in sample.settings]
        # Without values the page itself is the value: the ends of one app are divided between the splits.
        values = values or [("page", page_name(graph, sample.end), sample.end)]
        return QueryPlan(
            platform=graph.platform,
            apps=(graph.app,),
            source=Source.GRAPH,
            pages=pages,
            page_descriptions=tuple(page_description(graph, page.partition(".")[2]) for page in pages),
            slots=tuple(
                Slot(name=name, value=value, said=said.get(name, ""), page=f"{graph.app}.{page}")
                for name, value, page in values
            ),
            path=path,
            start_state=graph.start_json,
            goal=json.dumps(route_goal(sample), ensure_ascii=False),
            difficulty=difficulty(path, 1),
            max_steps=step_limit(path, _FEWEST_STEPS),
        )


class GraphSource(NamedTuple):
    """The graphs of apps."""

    graphs: tuple[AppGraph, ...]
    wanted: Mapping[Split, int]

    async def candidates(self, context: SourceContext) -> Offer:
        """Return routes and values on them, the tasks of all graphs in turn.

        Held-out goals are other values of tasks that training has, or goals of whole unseen apps.
        """
        seed = context.fresh.seed if context.fresh else context.seed
        wanted = dict.fromkeys(Split, 0) if context.fresh else self.wanted
        by_graph = [(graph.app, samples_by_task(graph, seed)) for graph in self.graphs]
        tasks = max(sum(len(of_graph) for _, of_graph in by_graph), 1)
        of_task = {split: SPARE_GOALS * math.ceil(wanted[split] / tasks) for split in HELDOUT_GOALS}
        # No more than training will have, so that the held-out goals combine values that it really has.
        of_task[Split.TRAIN] = max(_HEAD_START, math.ceil(wanted[Split.TRAIN] / tasks))
        shares: dict[Split, list[_TaskGoals]] = {split: [] for split in Split}
        for app, of_graph in by_graph:
            for goals in of_graph.values():
                given = share_goals(goals, of_task)
                if app in context.unseen.heldout:
                    given = {Split.HELDOUT_APPS: goals}
                elif app in context.unseen.validation:
                    given = {Split.VALIDATION: goals}
                # Tasks with several parts begin later: there are many, and an agent learns the single ones first. So
                # do those without held-out goals, or training would lack other values of what is held out.
                parts = max(1, len(goals[0].acts) + len(goals[0].final))
                first = _HEAD_START * (parts - any(given.get(split) for split in HELDOUT_GOALS))
                for split, of_split in given.items():
                    shares[split].append(_TaskGoals(of_split, first))
        return Offer(
            tuple(SplitCandidates(split, wanted[split], [_in_turn(split, shares[split], seed)]) for split in Split)
        )


class _TaskGoals(NamedTuple):
    """The goals that one task gives to a split."""

    goals: tuple[RouteSample, ...]
    first: int
    """Turn of its first goal."""


def _in_turn(split: Split, tasks: Sequence[_TaskGoals], seed: int) -> Iterator[Candidate]:
    """Yield one goal of each task, then the next of each; then all again in other words."""
    for turn in rephrasings(split):
        for number in range(max((task.first + len(task.goals) for task in tasks), default=0)):
            for goals, first in tasks:
                if first <= number < first + len(goals):
                    sample = goals[number - first]
                    words = int(content_id("live", seed, sample.task, sample.key, split, turn), 16)
                    yield Candidate(RouteGoal(sample), split, is_held_out_phrasing(split, turn + number), words)


def graph_source(settings: GraphSourceSpec) -> GraphSource:
    """Read the graphs of a configuration.

    Raises:
        BadInputError: no file is named, or one is no graph.
    """
    if not settings.files:
        raise BadInputError("graphs.files is missing: name the files of the apps' graphs (see graphs.md)")
    return GraphSource(tuple(map(read_graph, settings.files)), {split: settings.wanted(split) for split in Split})


def route_path(sample: RouteSample) -> tuple[PathStep, ...]:
    """Return the steps of a sample, from a reset to the end."""
    finish = PathStep(page=f"{sample.graph.app}.{sample.end}", operation="finish", target="")
    return (*sample.graph.opening, *steps_of(sample), finish)


def steps_of(sample: RouteSample) -> tuple[PathStep, ...]:
    """Return the steps of a sample, from the app's first page on."""
    graph, steps = sample.graph, list[PathStep]()
    for move in sample.moves:
        steps += take(graph, move.page, move.transition, move.values)
        pressed = graph.pages[move.page].slots.get(move.transition.by)
        if pressed is not None and pressed.kind is SlotKind.LIST and graph.platform is not Platform.PHONE:
            # An item of a list may have to be scrolled to, where there is a wheel.
            steps.insert(-1, steps[-1].model_copy(update={"operation": "scroll"}))
    for setting in sample.final:
        steps += set_slot(graph, setting.page, setting.slot, setting.value)
    return tuple(steps)


def route_goal(sample: RouteSample) -> dict[str, Any]:
    """Return the goal of a sample: its page, its values and the effects of its transitions.

    The environments' own goals of all transitions are merged: tables by key, lists one after the other.
    """
    page = sample.graph.pages[sample.end].recognise
    showing = [_wanted(feature) for feature in page.shows]
    lacking = [_wanted(feature) for feature in page.lacks]
    own: dict[str, Any] = {}
    last = len(sample.moves) - _moves_at_end(sample.moves, sample.end)
    for number, move in enumerate(sample.moves):
        # What an earlier page showed may be gone, except what was made there: the walk of the query decides.
        kept = [each for each in move.transition.shows if number >= last or slot_names(each)]
        showing += [_wanted(filled(feature, move.values)) for feature in kept]
        gone = move.transition.lacks if number >= last else ()
        lacking += [_wanted(filled(feature, move.values)) for feature in gone]
        own = merged(own, fill(move.transition.goal, move.values))
    for setting in sample.final:
        is_off = setting.spec.kind is SlotKind.SWITCH and setting.value == OFF
        (lacking if is_off else showing).append(_set(setting.value, setting.spec))
    goal = ScreenGoal(showing=tuple(dict.fromkeys(showing)), lacking=tuple(dict.fromkeys(lacking)))
    return {**own, **goal_parts(goal.showing, goal.lacking)}


def _moves_at_end(moves: Sequence[RouteMove], end: str) -> int:
    """Count the moves whose effects the last page shows: the one that leads there, and those that stay on it."""
    staying = next((number for number, move in enumerate(reversed(moves)) if move.page != end), len(moves) - 1)
    return staying + 1


def _wanted(feature: Feature) -> Showing:
    return Showing(role=feature.role, text=feature.text, id=feature.id, state=feature.state, value=feature.value)


def _set(value: str, slot: GraphSlot) -> Showing:
    match slot.kind:
        case SlotKind.SWITCH:
            return Showing(target=slot.target, any_state=_MARKED)
        case SlotKind.FIELD | SlotKind.SLIDER:
            return Showing(target=slot.target, value=value)
        case _ if slot.opens:
            return Showing(target=slot.opens, value=slot.shown_for(value))
        case _:
            return Showing(target=slot.target_of(value), any_state=_MARKED)


def merged(first: Any, second: Any) -> Any:
    """Merge two JSON values: tables by key, lists without repetitions; of other values the second stays."""
    match first, second:
        case dict(), dict():
            both = {key: merged(first[key], second[key]) for key in first.keys() & second.keys()}
            return {**first, **second, **both}
        case list(), list():
            return [*first, *(each for each in second if each not in first)]
        case _:
            return second
