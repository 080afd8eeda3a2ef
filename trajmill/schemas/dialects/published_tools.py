"""The published tools `mobile_use` and `computer_use`: their calls, and their description in system messages.

Names, parameters, their order and the layout of the message are the published ones; the explanations are ours. Each
family has a part of the actions. The `computer_use` of GUI-Owl v3 has other names and parameters (`gui_owl_v3`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
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
from trajmill.schemas.dialects.base import unknown_action
from trajmill.schemas.dialects.tool_call import (
    Arguments,
    ArgumentsError,
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

MOBILE_ACTIONS: Final[Mapping[str, str]] = {
    "key": "Send an adb `keyevent` to the device, e.g. volume_up, power, camera or clear.",
    "click": "Tap the point (x, y).",
    "long_press": "Hold a finger on the point (x, y) for some seconds.",
    "swipe": "Move a finger from the point (x, y) to the point (x2, y2).",
    "type": "Enter a text into the input that has the focus.",
    "system_button": "Press a button of the system.",
    "open": "Open an app.",
    "wait": "Wait some seconds for the screen to change.",
    "answer": "Give the answer to the user's question, which ends the task.",
    "interact": "Ask the user to resolve what blocks the task.",
    "terminate": "End the task and report its status.",
}
"""The description of each action of `mobile_use`."""

COMPUTER_ACTIONS: Final[Mapping[str, str]] = {
    "key": "Press the given keys in order, then release them in reverse order.",
    "type": "Type a text on the keyboard.",
    "mouse_move": "Move the pointer to the point (x, y).",
    "left_click": "Click the left mouse button at the point (x, y).",
    "left_click_drag": "Hold the left mouse button from where the pointer is to the point (x, y).",
    "right_click": "Click the right mouse button at the point (x, y).",
    "middle_click": "Click the middle mouse button at the point (x, y).",
    "double_click": "Click the left mouse button twice at the point (x, y).",
    "triple_click": "Click the left mouse button three times at the point (x, y).",
    "scroll": "Turn the mouse wheel.",
    "hscroll": "Turn the mouse wheel sideways.",
    "wait": "Wait some seconds for the screen to change.",
    "terminate": "End the task and report its status.",
    "answer": "Answer a question.",
    "interact": "Ask the user to resolve what blocks the task.",
}
"""The description of each action of `computer_use`."""

_ABOUT = {
    MOBILE_USE: "Operate a mobile device by its touchscreen, and see its screen.",
    COMPUTER_USE: "Operate a computer by mouse and keyboard, and see its screen.",
}
_ADVICE = """
* Some applications are slow: wait and look again when nothing has changed yet.
* The screen's resolution is {screen}.
* Aim at the middle of what you want to press, not at its edge."""
_POSITION = "(x, y): distances from the left and the top edge."
_STATUS = {"description": "Outcome of the task.", "type": "string", "enum": ["success", "failure"]}
_MOBILE_PARAMETERS: Mapping[str, Any] = {
    "coordinate": {"description": _POSITION, "type": "array"},
    "coordinate2": {"description": f"{_POSITION} Where a swipe ends.", "type": "array"},
    "text": {"description": "For the actions that take a text.", "type": "string"},
    "time": {"description": "Seconds to hold or to wait.", "type": "number"},
    "button": {"description": "For system_button.", "enum": ["Back", "Home", "Menu", "Enter"], "type": "string"},
    "status": _STATUS,
}
_COMPUTER_PARAMETERS: Mapping[str, Any] = {
    "keys": {"description": "Names of keys.", "type": "array"},
    "text": {"description": "For the actions that take a text.", "type": "string"},
    "coordinate": {"description": _POSITION, "type": "array"},
    "pixels": {"description": "How far to scroll; positive is up, or to the right.", "type": "number"},
    "time": {"description": "Seconds to wait.", "type": "number"},
    "status": _STATUS,
}
_MESSAGE = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tool}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""


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


def mobile_message(actions: Iterable[str], *, with_human_name: bool) -> str:
    """The system message for a phone, with the placeholder `{screen}` for the resolution.

    Args:
        actions: the actions that the model knows.
        with_human_name: whether the signature also has `name_for_human` and `args_format`.
    """
    tool = _function(MOBILE_USE, {name: MOBILE_ACTIONS[name] for name in actions}, _MOBILE_PARAMETERS)
    if with_human_name:
        tool = {"name_for_human": MOBILE_USE} | tool | {"args_format": "Format the arguments as a JSON object."}
    return _message(tool)


def computer_message(actions: Iterable[str]) -> str:
    """The system message for a desktop or a browser, with the placeholder `{screen}` for the resolution."""
    return _message(_function(COMPUTER_USE, {name: COMPUTER_ACTIONS[name] for name in actions}, _COMPUTER_PARAMETERS))


def _function(name: str, actions: Mapping[str, str], parameters: Mapping[str, Any]) -> dict[str, Any]:
    listing = "".join(f"\n* `{action}`: {meaning}" for action, meaning in actions.items())
    action = {
        "description": f"What to do. The available actions are:{listing}",
        "enum": list(actions),
        "type": "string",
    }
    return {
        "name": name,
        "description": _ABOUT[name] + _ADVICE,
        "parameters": {"properties": {"action": action} | dict(parameters), "required": ["action"], "type": "object"},
    }


def _message(function: dict[str, Any]) -> str:
    return _MESSAGE.replace("{tool}", json.dumps({"type": "function", "function": function}))
