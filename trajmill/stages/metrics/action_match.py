"""Compares an action with the right one by the rules of CES: Type, GR and SR (CES 5.1 and equations 24 and 25)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    Drag,
    HorizontalScroll,
    Interact,
    LongPress,
    OpenApp,
    PressKeys,
    Scroll,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
    pressed_point,
)
from trajmill.schemas.geometry import Box, Size

UNBOXED_REACH: Final = 0.14
"""Largest distance of a right position, as a share of the screen, if the element is unknown (GUI-Odyssey)."""
_ALIKE = 0.5
"""Two texts count as equal if their F1 is above this (CES, equation 25)."""


class RightAction(NamedTuple):
    """The right action of a step, and what is needed to compare another one with it."""

    action: Action
    box: Box | None
    """The element at its position, in pixels of the stored screenshot; None if it is unknown."""
    screen: Size
    """Size of the stored screenshot."""


class ActionMatch(NamedTuple):
    """How an action compares with the right one."""

    type: bool
    """Whether it is of the right type."""
    parameters: bool
    """Whether its parameters are right too: a position within the element, the same words, the same direction."""
    closeness: float
    """From 0 to 1, how close the parameters are: for positions 1 minus the distance as a share of the screen, for texts
    their F1. 0 for an action of another type."""
    pointed: bool
    """Whether both actions press a point, so that the step counts for GR."""


class StepScores(NamedTuple):
    """Type, GR and SR over some steps, each from 0 to 1; None without a step that counts."""

    type: float | None
    """Share of steps with an action of the right type."""
    gr: float | None
    """Share of right points among the clicks and long presses where one was right: a prediction of another type has no
    point. Table 2 of CES has a GR of 53 % beside a Type of 26 % and an SR of 14 %, which no other count allows."""
    sr: float | None
    """Share of steps whose action has the right type and the right parameters."""


_OTHER_TYPE = ActionMatch(False, False, 0.0, False)


def match_action(action: Action | None, right: RightAction) -> ActionMatch:
    """Compare an action with the right one; None is a reply without an action."""
    if action is None or _type_of(action) != _type_of(right.action):
        return _OTHER_TYPE
    pointed = isinstance(action, Click | LongPress)
    return ActionMatch(True, _has_right_parameters(action, right), _closeness(action, right), pointed)


def step_scores(matches: Iterable[ActionMatch]) -> StepScores:
    """Type, GR and SR of the steps that `match_action` has compared."""
    steps = list(matches)
    points = [step.parameters for step in steps if step.pointed]
    return StepScores(
        _share([step.type for step in steps]), _share(points), _share([step.parameters for step in steps])
    )


def word_f1(said: str, right: str) -> float:
    """F1 of the words of two texts without case; 1 for equal texts, even empty ones."""
    one, other = Counter(said.lower().split()), Counter(right.lower().split())
    if one == other:
        return 1.0
    shared = (one & other).total()
    return 2 * shared / (one.total() + other.total()) if shared else 0.0


def _share(outcomes: list[bool]) -> float | None:
    return sum(outcomes) / len(outcomes) if outcomes else None


def _type_of(action: Action) -> tuple[object, ...]:
    """The type of an action and those parameters that are never just close: button, count, keys, status."""
    match action:
        case SystemButton(button=button):
            return action.kind, button
        case PressKeys(keys=keys):
            return action.kind, *(key.lower() for key in keys)
        case Terminate(status=status):
            return action.kind, status
        case _:
            return action.kind, getattr(action, "button", None), getattr(action, "count", None)


def _has_right_parameters(action: Action, right: RightAction) -> bool:
    """Whether an action of the right type has the right parameters."""
    wanted = right.action
    if isinstance(action, Swipe) and isinstance(wanted, Swipe):
        return _direction(action) == _direction(wanted)
    if isinstance(action, Scroll | HorizontalScroll) and isinstance(wanted, Scroll | HorizontalScroll):
        return (action.clicks > 0) == (wanted.clicks > 0)
    if isinstance(action, Drag) and isinstance(wanted, Drag):
        begun = _within(action.x, action.y, right)
        return begun and _near((action.x2, action.y2), (wanted.x2, wanted.y2), right.screen)
    said = _text_of(wanted)
    if said is not None:
        return word_f1(_text_of(action) or "", said) > _ALIKE
    point = pressed_point(action)
    return point is None or _within(*point, right)


def _within(x: int, y: int, right: RightAction) -> bool:
    if right.box is not None:
        return right.box.contains(x, y)
    wanted = pressed_point(right.action)
    return wanted is not None and _near((x, y), wanted, right.screen)


def _near(one: tuple[int, int], other: tuple[int, int], screen: Size) -> bool:
    across, down = (one[0] - other[0]) / screen.width, (one[1] - other[1]) / screen.height
    return across**2 + down**2 <= UNBOXED_REACH**2


def _closeness(action: Action, right: RightAction) -> float:
    said = _text_of(right.action)
    if said is not None:
        return word_f1(_text_of(action) or "", said)
    pairs = list(zip(_positions(action), _positions(right.action), strict=False))
    if not pairs:
        return float(_has_right_parameters(action, right))
    return sum(_nearness(one, other, right.screen) for one, other in pairs) / len(pairs)


def _nearness(one: tuple[int, int], other: tuple[int, int], screen: Size) -> float:
    far = abs(one[0] - other[0]) / screen.width + abs(one[1] - other[1]) / screen.height
    return 1.0 - far / 2


def _positions(action: Action) -> list[tuple[int, int]]:
    point = pressed_point(action)
    ends = [(action.x2, action.y2)] if isinstance(action, Swipe | Drag) else []
    return ([point] if point is not None else []) + ends


def _direction(action: Swipe) -> tuple[bool, bool]:
    across, down = action.x2 - action.x, action.y2 - action.y
    vertical = abs(down) >= abs(across)
    return vertical, (down if vertical else across) > 0


def _text_of(action: Action) -> str | None:
    match action:
        case TypeText(text=text) | Answer(text=text) | Interact(text=text):
            return text
        case OpenApp(app=app):
            return app
        case _:
            return None
