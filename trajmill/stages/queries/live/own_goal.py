"""The environment's own part of a goal: what transitions make beside what the screen shows, e.g. files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trajmill.stages.queries.live.base import RouteMove


def own_goal(moves: Sequence[RouteMove]) -> dict[str, Any]:
    """The goals of all transitions of a route in one; tables are merged, and lists put one after the other."""
    whole: dict[str, Any] = {}
    for move in moves:
        whole = _merged(whole, _filled(move.transition.goal, move.values))
    return whole


def texts_of(goal: Any) -> str:
    """All keys and texts of a goal."""
    match goal:
        case Mapping():
            return " ".join(f"{key} {texts_of(each)}" for key, each in goal.items())
        case [*items]:
            return " ".join(map(texts_of, items))
        case _:
            return str(goal)


def _filled(part: Any, values: Mapping[str, str]) -> Any:
    """A part of a goal with the values of slots in place of `{slot}`."""
    match part:
        case str():
            for slot, value in values.items():
                part = part.replace(f"{{{slot}}}", value)
            return part
        case Mapping():
            return {_filled(key, values): _filled(each, values) for key, each in part.items()}
        case [*items]:
            return [_filled(each, values) for each in items]
        case _:
            return part


def _merged(first: Any, second: Any) -> Any:
    match first, second:
        case dict(), dict():
            both = {key: _merged(first[key], second[key]) for key in first.keys() & second.keys()}
            return {**first, **second, **both}
        case list(), list():
            return [*first, *(each for each in second if each not in first)]
        case _:
            return second
