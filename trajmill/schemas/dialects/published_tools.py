"""The published tools `mobile_use` and `computer_use`: their calls, and their description in system messages.

Names, parameters, their order and the layout of the message are the published ones; the explanations are ours. Each
family has a part of the actions. The `computer_use` of GUI-Owl v3 has other names and parameters (`gui_owl_v3`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from trajmill.schemas.actions import (
    Answer,
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
from trajmill.schemas.dialects.tool_call import Form, ToolCallDialect, mouse_click, written_extent

MOBILE_USE: Final = "mobile_use"
COMPUTER_USE: Final = "computer_use"
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


_ANY_DEVICE = {
    "type": Form(TypeText, ("text",), {"clear": False, "enter": False}),
    "answer": Form(Answer, ("text",)),
    "interact": Form(Interact, ("text",)),
    "wait": Form(Wait, ("time",)),
    "terminate": Form(Terminate, ("status",)),
}
_FORMS = {
    MOBILE_USE: {
        "click": mouse_click("left", 1),
        "long_press": Form(LongPress, ("coordinate", "time")),
        "swipe": Form(Swipe, ("coordinate", "coordinate2")),
        "key": Form(PressKeys, ("keyevent",)),
        "open": Form(OpenApp, ("app",)),
        "system_button": Form(SystemButton, ("button",)),
        **_ANY_DEVICE,
    },
    COMPUTER_USE: {
        "left_click": mouse_click("left", 1),
        "right_click": mouse_click("right", 1),
        "middle_click": mouse_click("middle", 1),
        "double_click": mouse_click("left", 2),
        "triple_click": mouse_click("left", 3),
        "mouse_move": Form(MoveMouse, ("coordinate",)),
        "left_click_drag": Form(DragTo, ("coordinate",)),
        "scroll": Form(Scroll, ("wheel",)),
        "hscroll": Form(HorizontalScroll, ("wheel",)),
        "key": Form(PressKeys, ("keys",)),
        **_ANY_DEVICE,
    },
}


@lru_cache(maxsize=64)
def published_forms(tool: str, actions: tuple[str, ...]) -> Mapping[str, Form]:
    """The forms of the actions of a published tool that a family knows."""
    return {name: _FORMS[tool][name] for name in actions}


@dataclass(frozen=True)
class PublishedToolDialect(ToolCallDialect):
    tool: str
    actions: tuple[str, ...]
    """The tool's actions that a family knows."""
    system: str
    """The system message, with the placeholder `{screen}` for the resolution."""

    @property
    def forms(self) -> Mapping[str, Form]:
        return published_forms(self.tool, self.actions)

    def system_prompt(self, frame: CoordinateFrame) -> str:
        return self.system.replace("{screen}", written_extent(frame), 1)


def mobile_message(actions: Iterable[str], *, with_human_name: bool) -> str:
    """The system message for a phone, with the placeholder `{screen}` for the resolution.

    `with_human_name` adds `name_for_human` and `args_format` to the signature.
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
