"""The goal check of a route: what the last screen must show, in words that any environment can check."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from trajmill.stages.environments.screen_goal import KEY, LACKING, ScreenGoal, Showing
from trajmill.stages.graphs.base import Feature, GraphSlot, SlotKind
from trajmill.stages.graphs.operations import OFF
from trajmill.stages.graphs.recognise import fill, filled
from trajmill.stages.queries.graph.routes import RouteMove, RouteSample, Setting, slot_names

_MARKED = ("checked", "selected")
"""States of an option that was chosen."""


def goal_json(sample: RouteSample) -> str:
    """Return the goal check of a sample: its page, its values and the effects of its transitions."""
    goal = screen_goal(sample)
    return json.dumps(
        {
            **environment_goal(sample.moves),
            **{
                key: [each.model_dump(exclude_defaults=True) for each in elements]
                for key, elements in ((KEY, goal.showing), (LACKING, goal.lacking))
                if elements
            },
        },
        ensure_ascii=False,
    )


def screen_goal(sample: RouteSample) -> ScreenGoal:
    """What the last screen of a sample shows, and what it does not show."""
    page = sample.graph.pages[sample.end].recognise
    showing = [_wanted(feature) for feature in page.shows]
    lacking = [_wanted(feature) for feature in page.lacks]
    last = len(sample.moves) - len(ending(sample.moves, sample.end))
    for number, move in enumerate(sample.moves):
        # What an earlier page showed may be gone, but not what was made there; if it is, the walk of the query tells.
        kept = move.transition.shows if number >= last else _with_values(move.transition.shows)
        showing += [_wanted(filled(feature, move.values)) for feature in kept]
        gone = move.transition.lacks if number >= last else ()
        lacking += [_wanted(filled(feature, move.values)) for feature in gone]
    for setting in sample.final:
        is_off = setting.spec(sample.graph).kind is SlotKind.SWITCH and setting.value == OFF
        (lacking if is_off else showing).append(_set(setting, setting.spec(sample.graph)))
    return ScreenGoal(showing=tuple(dict.fromkeys(showing)), lacking=tuple(dict.fromkeys(lacking)))


def ending(moves: tuple[RouteMove, ...], end: str) -> tuple[RouteMove, ...]:
    """Return the moves whose effects the last page shows: the one that leads there, and those that stay on it."""
    found: list[RouteMove] = []
    for move in reversed(moves):
        found.insert(0, move)
        if move.page != end:
            break
    return tuple(found)


def _with_values(features: Iterable[Feature]) -> tuple[Feature, ...]:
    return tuple(feature for feature in features if slot_names(feature))


def _wanted(feature: Feature) -> Showing:
    return Showing(role=feature.role, text=feature.text, id=feature.id, state=feature.state, value=feature.value)


def _set(setting: Setting, slot: GraphSlot) -> Showing:
    match slot.kind:
        case SlotKind.SWITCH:
            return Showing(target=slot.target, any_state=_MARKED)
        case SlotKind.FIELD | SlotKind.SLIDER:
            return Showing(target=slot.target, value=setting.value)
        case _ if slot.opens:
            return Showing(target=slot.opens, value=slot.shown_for(setting.value))
        case _:
            return Showing(target=slot.target_of(setting.value), any_state=_MARKED)


def environment_goal(moves: Sequence[RouteMove]) -> dict[str, Any]:
    """The goals of all transitions of a route in one; tables are merged, and lists put one after the other."""
    whole: dict[str, Any] = {}
    for move in moves:
        whole = merged(whole, fill(move.transition.goal, move.values))
    return whole


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
