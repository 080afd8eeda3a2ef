"""Queries from the graphs of apps (`source = graph`), in any environment (GUI-Owl 6.2)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from random import Random
from typing import Any, NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import PathStep, Platform, Slot, Source, Split
from trajmill.stages.environments.screen_goal import PATHWAY, ScreenGoal, Showing
from trajmill.stages.environments.simulated.annotations import KnownSlot, PageMetadata, PathMetadata, SlotValue
from trajmill.stages.graphs.asked import asked_line
from trajmill.stages.graphs.base import AppGraph, Feature, GraphSlot, SlotKind
from trajmill.stages.graphs.file import read_graph
from trajmill.stages.graphs.operations import OFF, set_slot, take
from trajmill.stages.graphs.recognise import MARKED, fill, filled
from trajmill.stages.queries.base import (
    Candidate,
    GoalFacts,
    Offer,
    QueryPlan,
    SourceContext,
    UnseenApps,
    Written,
    phrased,
)
from trajmill.stages.queries.graph.routes import Route, Setting, can_be_seen_before, samples_by_task
from trajmill.stages.queries.graph.wishes import done_on_the_way, pressed_name
from trajmill.stages.queries.leaks import (
    HELDOUT_GOALS,
    HELDOUT_SHARE,
    SPARE_GOALS,
    is_held_out_phrasing,
    rephrasings,
    share_goals,
)
from trajmill.stages.queries.spec import GraphSourceSpec
from trajmill.stages.queries.templates import explicit_instruction, listed

_HEAD_START = 3
"""Goals taken from each task before tasks with one more part, or without held-out goals, take their turn."""
_FEWEST_VALIDATED = 8
"""Goals of validation queries below which training goals in held-out phrasings join them: nobody achieves a page that
training never names, and what no policy achieves promotes none."""


class RouteGoal(NamedTuple):
    sample: Route

    @property
    def task(self) -> str:
        return self.sample.task

    def facts(self) -> GoalFacts:
        sample = self.sample
        page = KnownSlot("page", "page", "list", (sample.graph.name_of(sample.end),), ())
        return GoalFacts(path_metadata(sample), tuple(setting.known for setting in sample.settings) or (page,))

    def worded(self, heldout: bool, seed: int) -> Written:
        sample, rng, acts = self.sample, Random(seed), self.sample.acts
        alone = [act for act in acts if act.transition.to != act.page and not act.transition.does]
        kinds = [setting.spec.kind for setting in sample.settings]
        if not sample.parts:
            kind, words = "visit", {"page": sample.graph.name_of(sample.end)}
            said = dict(words)
        elif len(alone) == len(acts) == 1 and kinds == [SlotKind.LIST] and not sample.final:
            [opened] = acts[0].settings
            kind, words, said = "open", {"item": opened.value}, {opened.name: opened.value}
        else:
            wishes = [*done_on_the_way(sample, rng), *(setting.wish(rng) for setting in sample.final)]
            kind, words = "do", {"wish": listed([wish.text for wish in wishes])}
            said = {name: text for wish in wishes for name, text in wish.said.items()}
        words |= {"app": sample.graph.name}
        written = phrased(__package__, kind, sample.task, words, heldout, rng, "live-grammar-4")
        return written._replace(raw=explicit_instruction(path_metadata(sample)), said=said)

    def plan(self) -> QueryPlan:
        sample, graph, path = self.sample, self.sample.graph, route_path(self.sample)
        pages = [step.page for step in path if step.page.startswith(f"{graph.app}.")]
        # Without values the page itself is the value: the ends of one app are divided between the splits.
        values = [(each.name, each.value, each.page) for each in sample.settings]
        values = values or [("page", graph.name_of(sample.end), sample.end)]
        return QueryPlan(
            platform=graph.platform,
            apps=(graph.app,),
            source=Source.GRAPH,
            pages={page: graph.purpose_of(page.partition(".")[2]) for page in pages},
            slots=tuple(Slot(name=name, value=value, said="", page=f"{graph.app}.{at}") for name, value, at in values),
            path=path,
            start_state=graph.start_json,
            goal=json.dumps(route_goal(sample), ensure_ascii=False),
        )


class _Share(NamedTuple):
    goals: tuple[Route, ...]
    first: int
    """The turn in which the first of them is taken; one is taken in each turn."""
    said_anew: bool = False
    """Whether training has the same goals in other phrasings."""

    def goal_in(self, turn: int) -> Route | None:
        return self.goals[turn - self.first] if self.first <= turn < self.first + len(self.goals) else None


class GraphSource(NamedTuple):
    graphs: tuple[AppGraph, ...]
    wanted: Mapping[Split, int]

    async def candidates(self, context: SourceContext) -> Offer:
        """Return routes and values, the tasks of all graphs in turn; held out are values of tasks, or whole apps."""
        seed = context.fresh.seed if context.fresh else context.seed
        wanted = dict.fromkeys(Split, 0) if context.fresh else self.wanted
        shares = self._shares(context.unseen, wanted, seed)

        def stream(split: Split) -> Iterator[Candidate]:
            turns = max((share.first + len(share.goals) for share in shares[split]), default=0)
            for phrasing in rephrasings(split):
                for turn in range(turns):
                    for share in shares[split]:
                        if (sample := share.goal_in(turn)) is not None:
                            words = int(content_id("live", seed, sample.task, sample.key, split, phrasing), 16)
                            heldout = share.said_anew or is_held_out_phrasing(split, phrasing + turn)
                            yield Candidate(RouteGoal(sample), split, heldout, words)

        note = "; ".join(f"{graph.app}: {asked_line(graph)}" for graph in self.graphs)
        return Offer.of(stream, wanted)._replace(note=note)

    def _shares(self, unseen: UnseenApps, wanted: Mapping[Split, int], seed: int) -> dict[Split, list[_Share]]:
        divided = [
            (graph.app, goals)
            for graph in self.graphs
            for goals in _divided_together(samples_by_task(graph, seed), Random(seed))
        ]
        kinds = max(len(divided), 1)
        of_kind = {split: SPARE_GOALS * math.ceil(wanted[split] / kinds) for split in HELDOUT_GOALS}
        # No more than training will use, so that held-out goals combine values that training really has.
        of_kind[Split.TRAIN] = max(_HEAD_START, math.ceil(wanted[Split.TRAIN] / kinds))
        shares: dict[Split, list[_Share]] = {split: [] for split in Split}
        for app, goals in divided:
            given = share_goals(goals, of_kind)
            if app in unseen.heldout:
                given = {Split.HELDOUT_APPS: goals}
            elif app in unseen.validation:
                given = {Split.VALIDATION: goals}
            # Tasks with several parts begin later: there are many, and an agent learns the single ones first. So
            # do those without held-out goals, or training would lack other values of what is held out.
            parts = max(1, goals[0].parts)
            first = _HEAD_START * (parts - any(given.get(split) for split in HELDOUT_GOALS))
            for split, of_split in given.items():
                shares[split].append(_Share(of_split, first))
        fewest = min(_FEWEST_VALIDATED, wanted[Split.VALIDATION])
        missing = max(fewest - sum(len(share.goals) for share in shares[Split.VALIDATION]), 0)
        trained = chain.from_iterable(zip_longest(*(share.goals for share in shares[Split.TRAIN])))
        shares[Split.VALIDATION].append(_Share(tuple(islice(filter(None, trained), missing)), 0, said_anew=True))
        return shares


def _divided_together(by_task: Mapping[str, tuple[Route, ...]], rng: Random) -> list[tuple[Route, ...]]:
    """Return the goals that are divided between the splits together, those with fewer parts first.

    They are of tasks that ask for the same slots of a page. Slots that have too few goals to hold out any, such as a
    pair of switches, join the others of their page.
    """
    by_slots: dict[tuple[str, ...], tuple[Route, ...]] = {}
    for goals in by_task.values():
        key = (goals[0].end, f"{goals[0].parts}", *(setting.name for setting in goals[0].settings))
        by_slots[key] = (*by_slots.get(key, ()), *goals)
    found: dict[tuple[str, ...], tuple[Route, ...]] = {}
    for slots, goals in by_slots.items():
        key = slots if len(goals) >= HELDOUT_SHARE else slots[:1]
        found[key] = (*found.get(key, ()), *goals)
    return [tuple(sorted(rng.sample(goals, len(goals)), key=lambda goal: goal.parts)) for goals in found.values()]


def graph_source(settings: GraphSourceSpec) -> GraphSource:
    """Read the graphs of a configuration. Raises BadInputError if no file is named, or one is no graph."""
    if not settings.files:
        raise BadInputError("graphs.files is missing: name the files of the apps' graphs (see graphs.md)")
    return GraphSource(tuple(map(read_graph, settings.files)), {split: settings.wanted(split) for split in Split})


def route_path(sample: Route) -> tuple[PathStep, ...]:
    finish = PathStep(page=f"{sample.graph.app}.{sample.end}", operation="finish", target="")
    return (*sample.graph.opening, *steps_of(sample), finish)


def steps_of(sample: Route) -> tuple[PathStep, ...]:
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


def route_goal(sample: Route) -> dict[str, Any]:
    """Return the goal of a sample: its page, its values and the effects of its transitions."""
    page, moves = sample.graph.pages[sample.end].recognise, sample.moves
    showing, lacking = [*map(_wanted, page.shows)], [*map(_wanted, page.lacks)]
    own: dict[str, Any] = {}
    # The last page shows the effects of the move that leads there, and of those that stay on it.
    staying = next((number for number, move in enumerate(reversed(moves)) if move.page != sample.end), len(moves) - 1)
    for left, move in zip(range(len(moves) - 1, -1, -1), moves, strict=True):
        # Effects on earlier pages may be gone, except values that were entered there; the query's walk decides.
        kept = [each for each in move.transition.shows if left <= staying or each.slots]
        showing += [_wanted(filled(feature, move.values)) for feature in kept]
        gone = move.transition.lacks if left <= staying else ()
        lacking += [_wanted(filled(feature, move.values)) for feature in gone]
        own = merged(own, fill(move.transition.goal, move.values))
    final = _standing(sample.final)
    showing, lacking = [*showing, *final.showing], [*lacking, *final.lacking]
    goal = ScreenGoal(showing=tuple(dict.fromkeys(showing)), lacking=tuple(dict.fromkeys(lacking)))
    # Check a form before it is sent, unless the page after it shows all that was entered.
    unseen = (move for move in moves if can_be_seen_before(move) and not move.shown.issuperset(move.values))
    before = [_standing(move.settings) for move in unseen]
    filled_forms = {PATHWAY: [each.model_dump(exclude_defaults=True) for each in before]} if before else {}
    return {**own, **goal.model_dump(exclude_defaults=True), **filled_forms}


def _standing(settings: Sequence[Setting]) -> ScreenGoal:
    """Return what the screen shows while settings have their values: these, and no switch on that is to be off."""
    stands: dict[bool, list[Showing]] = {True: [], False: []}
    for each in settings:
        is_off = each.spec.kind is SlotKind.SWITCH and each.value == OFF
        stands[not is_off].append(_stands(each.spec, each.value))
    return ScreenGoal(showing=tuple(stands[True]), lacking=tuple(stands[False]))


def _stands(slot: GraphSlot, value: str) -> Showing:
    """Return the element that shows the value of a slot; for a switch, that it is on."""
    if slot.kind is SlotKind.SWITCH:
        return Showing(target=slot.target, any_state=MARKED)
    if slot.kind in (SlotKind.FIELD, SlotKind.SLIDER, SlotKind.KEYPAD):
        return Showing(target=slot.target, value=slot.shown_for(value))
    if slot.opens:
        return Showing(target=slot.opens, value=slot.shown_for(value))
    return Showing(target=slot.target_of(value), any_state=MARKED)


def _wanted(feature: Feature) -> Showing:
    return Showing(role=feature.role, text=feature.text, id=feature.id, state=feature.state, value=feature.value)


def merged(first: Any, second: Any) -> Any:
    match first, second:
        case dict(), dict():
            both = {key: merged(first[key], second[key]) for key in first.keys() & second.keys()}
            return {**first, **second, **both}
        case list(), list():
            return [*first, *(each for each in second if each not in first)]
        case _:
            return second


def path_metadata(sample: Route) -> PathMetadata:
    graph, pages = sample.graph, list[PageMetadata]()
    parts = [(move.page, move.settings, pressed_name(graph, move)) for move in sample.moves]
    for name, settings, leave_by in (*parts, (sample.end, sample.final, "")):
        values = tuple(_slot_value(graph, setting) for setting in settings)
        pages.append(PageMetadata(f"{graph.app}.{name}", graph.name, graph.purpose_of(name), values, leave_by))
    done = " ".join(move.transition.does for move in sample.moves if move.transition.does)
    description = done or f"Get to {graph.name_of(sample.end)} in {graph.name}."
    every = tuple(value for page in pages for value in page.settings)
    return PathMetadata(sample.task, description, graph.platform, tuple(pages), every)


def _slot_value(graph: AppGraph, setting: Setting) -> SlotValue:
    kind, place = setting.spec.kind.value, f"{graph.app}.{setting.page}"
    return SlotValue(setting.name, place, setting.label, kind, setting.value, (setting.value,), False, "")
