"""Calls of the published tools `mobile_use` and `computer_use`; each family knows a part of their actions.

The tool `computer_use` of GUI-Owl v3 has other names and parameters (`gui_owl_v3`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    DragTo,
    HorizontalScroll,
    Interact,
    LongPress,
    MoveMouse,
    OpenApp,
    PressKeys,
    Scroll,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
    Wait,
)
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.arguments import Arguments, ArgumentsError
from trajmill.schemas.dialects.signs import unknown_action
from trajmill.schemas.dialects.tool_call import (
    ToolCallDialect,
    refusal,
    written_extent,
    written_position,
    written_seconds,
)

MOBILE_USE: Final = "mobile_use"
COMPUTER_USE: Final = "computer_use"
_MOST_WHEEL_CLICKS = 1000
"""The tool has no bound; no machine scrolls farther."""
_MOUSE_CLICKS = {
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}
_NAMES_OF_MOUSE_CLICKS = {click: name for name, click in _MOUSE_CLICKS.items()}


class PublishedToolDialect(ToolCallDialect):
    """A dialect whose calls are calls of a published tool."""

    actions: ClassVar[Collection[str]]
    """The actions that the family knows."""
    system: ClassVar[str]
    """The system message, with the placeholder `{screen}` for the resolution."""

    def system_prompt(self, frame: CoordinateFrame) -> str:
        """The system message that teaches a model this format."""
        return self.system.replace("{screen}", written_extent(frame), 1)

    def _read(self, arguments: Arguments) -> Action:
        return read_call(self.tool, arguments, self.actions)

    def _write(self, action: Action, frame: CoordinateFrame) -> Mapping[str, Any]:
        return written_call(self.tool, action, frame, self.actions)


def read_call(tool: str, arguments: Arguments, names: Collection[str]) -> Action:
    """The action of a call of a published tool.

    Raises:
        ArgumentsError: the call is no action with one of the names.
    """
    name = arguments.word("action")
    action = (_read(tool, name, arguments) or _read_on_any_device(name, arguments)) if name in names else None
    if action is None:
        raise ArgumentsError(unknown_action(tool, name))
    return action


def written_call(tool: str, action: Action, frame: CoordinateFrame, names: Collection[str]) -> Mapping[str, Any]:
    """The arguments of the call of a published tool for an action.

    Raises:
        NotExpressible: no action with one of the names expresses it.
    """
    arguments = _written(tool, action, frame) or _written_on_any_device(action)
    if arguments is None or arguments["action"] not in names:
        raise refusal(tool, action)
    return arguments


def _read(tool: str, name: str, arguments: Arguments) -> Action | None:
    return _read_on_phone(name, arguments) if tool == MOBILE_USE else _read_on_computer(name, arguments)


def _written(tool: str, action: Action, frame: CoordinateFrame) -> Mapping[str, Any] | None:
    return _written_on_phone(action, frame) if tool == MOBILE_USE else _written_on_computer(action, frame)


def _read_on_any_device(name: str, arguments: Arguments) -> Action | None:
    match name:
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
            return None


def _written_on_any_device(action: Action) -> Mapping[str, Any] | None:
    match action:
        case TypeText(text=text, clear=False, enter=False) | Answer(text=text) | Interact(text=text):
            return {"action": action.kind, "text": text}
        case Wait(seconds=seconds):
            return {"action": "wait", "time": written_seconds(seconds)}
        case Terminate(status=status):
            return {"action": "terminate", "status": status}
        case _:
            return None


def _read_on_phone(name: str, arguments: Arguments) -> Action | None:
    match name:
        case "click":
            x, y = arguments.position("coordinate")
            return Click(x=x, y=y)
        case "long_press":
            x, y = arguments.position("coordinate")
            return LongPress(x=x, y=y, seconds=arguments.seconds(1.0))
        case "swipe":
            (x, y), (x2, y2) = arguments.position("coordinate"), arguments.position("coordinate2")
            return Swipe(x=x, y=y, x2=x2, y2=y2)
        case "key":
            return PressKeys(keys=(arguments.text(),))
        case "open":
            return OpenApp(app=arguments.text())
        case "system_button":
            return SystemButton(button=arguments.button())
        case _:
            return None


def _written_on_phone(action: Action, frame: CoordinateFrame) -> Mapping[str, Any] | None:
    match action:
        case Click(x=x, y=y, button="left", count=1):
            return {"action": "click", "coordinate": written_position(x, y, frame)}
        case LongPress(x=x, y=y, seconds=seconds):
            position = written_position(x, y, frame)
            return {"action": "long_press", "coordinate": position, "time": written_seconds(seconds)}
        case Swipe(x=x, y=y, x2=x2, y2=y2):
            start, end = written_position(x, y, frame), written_position(x2, y2, frame)
            return {"action": "swipe", "coordinate": start, "coordinate2": end}
        case PressKeys(keys=(key,)):
            return {"action": "key", "text": key}
        case OpenApp(app=app):
            return {"action": "open", "text": app}
        case SystemButton(button=button):
            return {"action": "system_button", "button": button}
        case _:
            return None


def _read_on_computer(name: str, arguments: Arguments) -> Action | None:
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
            return turned(x=at and at.x, y=at and at.y, clicks=arguments.wheel(_MOST_WHEEL_CLICKS))
        case "key":
            return PressKeys(keys=arguments.keys())
        case _ if name in _MOUSE_CLICKS:
            x, y = arguments.position("coordinate")
            button, count = _MOUSE_CLICKS[name]
            return Click.model_validate({"x": x, "y": y, "button": button, "count": count})
        case _:
            return None


def _written_on_computer(action: Action, frame: CoordinateFrame) -> Mapping[str, Any] | None:
    match action:
        case Click(x=x, y=y, button=button, count=count) if (button, count) in _NAMES_OF_MOUSE_CLICKS:
            name = _NAMES_OF_MOUSE_CLICKS[button, count]
            return {"action": name, "coordinate": written_position(x, y, frame)}
        case MoveMouse(x=x, y=y):
            return {"action": "mouse_move", "coordinate": written_position(x, y, frame)}
        case DragTo(x=x, y=y):
            return {"action": "left_click_drag", "coordinate": written_position(x, y, frame)}
        case Scroll(clicks=clicks) | HorizontalScroll(clicks=clicks) if abs(clicks) <= _MOST_WHEEL_CLICKS:
            return {"action": action.kind} | _wheel_position(action, frame) | {"pixels": clicks}
        case PressKeys(keys=keys) if keys:
            return {"action": "key", "keys": list(keys)}
        case _:
            return None


def _wheel_position(action: Scroll | HorizontalScroll, frame: CoordinateFrame) -> dict[str, Any]:
    if action.x is None and action.y is None:
        return {}
    if action.x is None or action.y is None:
        raise refusal(COMPUTER_USE, action)
    return {"coordinate": written_position(action.x, action.y, frame)}
