"""The actions of the published tool `computer_use` of Qwen and GUI-Owl 1.5; each family has a part of them.

GUI-Owl v3 has other names and parameters (`gui_owl_v3`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    DragTo,
    HorizontalScroll,
    Interact,
    MoveMouse,
    PressKeys,
    Scroll,
    Terminate,
    TypeText,
    Wait,
)
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.arguments import Arguments, ArgumentsError
from trajmill.schemas.dialects.signs import unknown_action
from trajmill.schemas.dialects.tool_call import refusal, written_position, written_seconds

TOOL = "computer_use"
MOST_WHEEL_CLICKS = 1000
"""The tool has no bound; no machine scrolls farther."""
_CLICKS = {
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}
_NAMES_OF_CLICKS = {press: name for name, press in _CLICKS.items()}


def read_computer_use(arguments: Arguments, names: Collection[str]) -> Action:
    """The action of a call.

    Raises:
        ArgumentsError: the call is no action of the given names.
    """
    name = arguments.word("action")
    if name not in names:
        raise ArgumentsError(unknown_action(TOOL, name))
    if name in _CLICKS:
        x, y = arguments.position("coordinate")
        button, count = _CLICKS[name]
        return Click.model_validate({"x": x, "y": y, "button": button, "count": count})
    match name:
        case "mouse_move":
            x, y = arguments.position("coordinate")
            return MoveMouse(x=x, y=y)
        case "left_click_drag":
            x, y = arguments.position("coordinate")
            return DragTo(x=x, y=y)
        case "scroll" | "hscroll":
            at = arguments.position("coordinate") if arguments.has("coordinate") else None
            turned = Scroll if name == "scroll" else HorizontalScroll
            return turned(x=at and at.x, y=at and at.y, clicks=arguments.wheel(MOST_WHEEL_CLICKS))
        case "key":
            return PressKeys(keys=arguments.keys())
        case "type":
            return TypeText(text=arguments.text())
        case "answer":
            return Answer(text=arguments.text())
        case "interact":
            return Interact(text=arguments.text())
        case "wait":
            return Wait(seconds=arguments.seconds(1.0))
        case "terminate":
            return Terminate(status=arguments.status())
        case _:
            raise ArgumentsError(unknown_action(TOOL, name))


def write_computer_use(action: Action, frame: CoordinateFrame, names: Collection[str]) -> Mapping[str, Any]:
    """The arguments of the call that is an action.

    Raises:
        NotExpressible: none of the given names says it.
    """
    arguments = _arguments(action, frame)
    if arguments is None or arguments["action"] not in names:
        raise refusal(TOOL, action)
    return arguments


def _arguments(action: Action, frame: CoordinateFrame) -> Mapping[str, Any] | None:
    match action:
        case Click(x=x, y=y, button=button, count=count) if (button, count) in _NAMES_OF_CLICKS:
            return {"action": _NAMES_OF_CLICKS[button, count], "coordinate": written_position(x, y, frame)}
        case MoveMouse(x=x, y=y):
            return {"action": "mouse_move", "coordinate": written_position(x, y, frame)}
        case DragTo(x=x, y=y):
            return {"action": "left_click_drag", "coordinate": written_position(x, y, frame)}
        case Scroll(clicks=clicks) | HorizontalScroll(clicks=clicks) if abs(clicks) <= MOST_WHEEL_CLICKS:
            return {"action": action.kind} | _at(action, frame) | {"pixels": clicks}
        case PressKeys(keys=keys) if keys:
            return {"action": "key", "keys": list(keys)}
        case TypeText(text=text, clear=False, enter=False) | Answer(text=text) | Interact(text=text):
            return {"action": action.kind, "text": text}
        case Wait(seconds=seconds):
            return {"action": "wait", "time": written_seconds(seconds)}
        case Terminate(status=status):
            return {"action": "terminate", "status": status}
        case _:
            return None


def _at(action: Scroll | HorizontalScroll, frame: CoordinateFrame) -> dict[str, Any]:
    if action.x is None and action.y is None:
        return {}
    if action.x is None or action.y is None:
        raise refusal(TOOL, action)
    return {"coordinate": written_position(action.x, action.y, frame)}
