"""Compares an action with the right one by the rules of CES: Type, GR and SR (CES 5.1 and equations 24 and 25)."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final, NamedTuple

from trajmill.schemas import actions
from trajmill.schemas.geometry import Box, Size

UNBOXED_REACH: Final = 0.14
"""Largest distance of a right position, as a share of the screen, if the element is unknown (GUI-Odyssey)."""
SHORTEST_MOVE: Final = 0.04
"""Shortest swipe or drag, as a share of the screen; a shorter gesture is a tap (Android in the Wild)."""
_ALIKE = 0.5
"""Two texts count as equal if their F1 is above this (CES, equation 25)."""


class RightAction(NamedTuple):
    """The right action of a step, and what is needed to compare another one with it."""

    action: actions.Action
    box: Box | None
    """The element at its position, in pixels of the stored screenshot; None if it is unknown."""
    screen: Size
    """Size of the stored screenshot."""


class ActionMatch(NamedTuple):
    type: bool
    """Whether it is of the right type."""
    parameters: bool
    """Whether its parameters are right too: each position within the element or near the right one, the same words, the
    same direction."""
    closeness: float
    """From 0 to 1, how close the parameters are: 1 for a position in the element, less with its distance, 0 from
    `UNBOXED_REACH` on; the F1 of texts; else whether the parameters are right. 0 for an action of another type."""


_OTHER_TYPE = ActionMatch(False, False, 0.0)


def match_action(action: actions.Action | None, right: RightAction) -> ActionMatch:
    """Compare an action with the right one; None is a reply without an action."""
    if action is None or _type_of(action, right.screen) != _type_of(right.action, right.screen):
        return _OTHER_TYPE
    return ActionMatch(True, _has_right_parameters(action, right), _closeness(action, right))


def text_f1(said: str, right: str) -> float:
    """F1 of the words of two texts without case; 1 for equal texts, 0 for one that has the right one several times."""
    one, other = said.lower().split(), right.lower().split()
    if one == other:
        return 1.0
    shared = (Counter(one) & Counter(other)).total()
    if not shared or " ".join(one).count(" ".join(other)) > 1:
        return 0.0
    return 2 * shared / (len(one) + len(other))


def _type_of(action: actions.Action, screen: Size) -> tuple[object, ...]:
    """The type of an action and those parameters that are never just close: button, count, keys, status."""
    match action:
        case actions.SystemButton(button=button):
            return action.kind, button
        case actions.PressKeys(keys=keys):
            return action.kind, *(key.lower() for key in keys)
        case actions.Terminate(status=status):
            return action.kind, status
        case actions.SwitchDevice(device=device):
            return action.kind, device
        case actions.Swipe() | actions.Drag():
            return action.kind, _length(action, screen) >= SHORTEST_MOVE
        case _:
            return action.kind, getattr(action, "button", None), getattr(action, "count", None)


def _has_right_parameters(action: actions.Action, right: RightAction) -> bool:
    wanted, screen = right.action, right.screen
    if (
        isinstance(action, actions.Swipe)
        and isinstance(wanted, actions.Swipe)
        and _length(wanted, screen) >= SHORTEST_MOVE
    ):
        return _direction(action) == _direction(wanted)
    if isinstance(action, actions.Scroll | actions.HorizontalScroll) and isinstance(
        wanted, actions.Scroll | actions.HorizontalScroll
    ):
        return (action.clicks > 0) == (wanted.clicks > 0)
    if isinstance(action, actions.Drag) and isinstance(wanted, actions.Drag):
        # Half its length at most: the end of a short drag is not right at its start.
        reach = min(UNBOXED_REACH, _length(wanted, screen) / 2)
        return _is_right_place(action.x, action.y, right) and _end_distance(action, wanted, screen) <= reach
    said = _text_of(wanted)
    if said is not None:
        return text_f1(_text_of(action) or "", said) > _ALIKE
    point = actions.pressed_point(action)
    return point is None or _is_right_place(*point, right)


def _is_right_place(x: int, y: int, right: RightAction) -> bool:
    if right.box is not None:
        return right.box.contains(x, y)
    return _off(x, y, right) <= UNBOXED_REACH


def _closeness(action: actions.Action, right: RightAction) -> float:
    wanted = right.action
    said = _text_of(wanted)
    if said is not None:
        return text_f1(_text_of(action) or "", said)
    point = actions.pressed_point(action)
    if point is None or isinstance(action, actions.Swipe | actions.Scroll | actions.HorizontalScroll):
        return float(_has_right_parameters(action, right))
    distances = [_off(*point, right)]
    if isinstance(action, actions.Drag) and isinstance(wanted, actions.Drag):
        distances.append(_end_distance(action, wanted, right.screen))
    return sum(max(0.0, 1.0 - distance / UNBOXED_REACH) for distance in distances) / len(distances)


def _off(x: int, y: int, right: RightAction) -> float:
    """The distance of a point from the right element, or from the right position where the element is unknown."""
    box, wanted = right.box, actions.pressed_point(right.action)
    if box is not None:
        nearest = min(max(x, box.left), box.right - 1), min(max(y, box.top), box.bottom - 1)
        return _distance((x, y), nearest, right.screen)
    return math.inf if wanted is None else _distance((x, y), wanted, right.screen)


def _end_distance(action: actions.Drag, wanted: actions.Drag, screen: Size) -> float:
    return _distance((action.x2, action.y2), (wanted.x2, wanted.y2), screen)


def _length(action: actions.Swipe | actions.Drag, screen: Size) -> float:
    return _distance((action.x, action.y), (action.x2, action.y2), screen)


def _distance(one: tuple[int, int], other: tuple[int, int], screen: Size) -> float:
    """The distance of two points, each axis as a share of the screen."""
    return math.hypot((one[0] - other[0]) / screen.width, (one[1] - other[1]) / screen.height)


def _direction(action: actions.Swipe) -> tuple[bool, bool]:
    across, down = action.x2 - action.x, action.y2 - action.y
    vertical = abs(down) >= abs(across)
    return vertical, (down if vertical else across) > 0


def _text_of(action: actions.Action) -> str | None:
    match action:
        case actions.TypeText(text=text) | actions.Answer(text=text) | actions.Interact(text=text):
            return text
        case actions.OpenApp(app=app):
            return app
        case _:
            return None
