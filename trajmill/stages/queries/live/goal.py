"""The goal check of a route: what the last screen must show, in words that any environment can check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from trajmill.stages.environments.screen_goal import KEY, LACKING, ScreenGoal, Showing
from trajmill.stages.graphs.base import Feature, GraphSlot, SlotKind
from trajmill.stages.graphs.operations import OFF
from trajmill.stages.graphs.recognise import filled
from trajmill.stages.queries.live.base import LiveSample, Route, RouteMove, Setting
from trajmill.stages.queries.live.own_goal import own_goal, texts_of

_PLACE = re.compile(r"\{([a-z0-9][a-z0-9_-]*)\}")
_MARKED = ("checked", "selected")
"""States of an option that was chosen."""


def goal_json(sample: LiveSample) -> str:
    """The goal check of a sample: its page is reached, all values stand there, and what else was made is there."""
    goal = screen_goal(sample)
    return json.dumps(
        {
            **own_goal(sample.moves),
            **{
                key: [each.model_dump(exclude_defaults=True) for each in elements]
                for key, elements in ((KEY, goal.showing), (LACKING, goal.lacking))
                if elements
            },
        },
        ensure_ascii=False,
    )


def screen_goal(sample: LiveSample) -> ScreenGoal:
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


def checks_values(route: Route) -> bool:
    """Whether the screen, or the environment's own goal, tells every value that is set on the way."""
    return all(set(slots_of(route, move)) <= _told(move) for move in route.moves)


def slots_of(route: Route, move: RouteMove) -> tuple[str, ...]:
    """The slots that a move needs, the pressed one last."""
    page = route.graph.pages[move.page]
    pressed = (move.transition.by,) if move.transition.by in page.slots else ()
    return tuple(dict.fromkeys((*move.transition.slots, *pressed)))


def ending(moves: tuple[RouteMove, ...], end: str) -> tuple[RouteMove, ...]:
    """The moves whose effects stand on the last page: the one that leads there, and those that stay on it."""
    found: list[RouteMove] = []
    for move in reversed(moves):
        found.insert(0, move)
        if move.page != end:
            break
    return tuple(found)


def _told(move: RouteMove) -> set[str]:
    shown = {name for feature in move.transition.shows for name in _names(feature)}
    return shown | set(_PLACE.findall(texts_of(move.transition.goal)))


def _with_values(features: Iterable[Feature]) -> tuple[Feature, ...]:
    return tuple(feature for feature in features if _names(feature))


def _names(feature: Feature) -> list[str]:
    """The slots whose values a feature names."""
    return _PLACE.findall(f"{feature.text or ''} {feature.value or ''}")


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
