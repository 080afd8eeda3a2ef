"""The two tools of GUI-Owl v3 as function schemas, and the system message around them.

Names, parameters and value sets are those of the published model (paper, Tables 9 and 10); the descriptions are ours.
"""

from __future__ import annotations

import json
from typing import Any

_POSITION = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
_STATUS = {"type": "string", "enum": ["success", "failure"], "description": "Outcome to report with `terminate`."}
_SECONDS = {"type": "number", "description": "Duration in seconds."}

MOBILE_ACTIONS = {
    "key": "send one adb keyevent, named in `text` (volume_up, power, clear, ...)",
    "click": "tap at `coordinate`",
    "long_press": "hold a finger at `coordinate` for `time` seconds",
    "swipe": "drag a finger from `coordinate` to `coordinate2`",
    "type": "enter `text` into the input that has the focus",
    "answer": "give `text` as the answer to the user's question and stop",
    "system_button": "press the system button named in `button`",
    "open": "start the app named in `text`",
    "wait": "do nothing for `time` seconds",
    "terminate": "stop and report `status`",
}
_DESKTOP_ACTIONS = {
    "key": "press the keys in `keys` in order, then release them in reverse order",
    "type": "enter `text`; `clear`=1 first empties the input, `enter`=1 presses Enter afterwards",
    "mouse_move": "put the pointer at `coordinate`",
    "click": "click the left button at `coordinate`",
    "drag": "hold the left button from `coordinate` to `coordinate2`",
    "right_click": "click the right button at `coordinate`",
    "middle_click": "click the middle button at `coordinate`",
    "double_click": "click the left button twice at `coordinate`",
    "scroll": "turn the wheel by `pixels`, -5 to 5, positive is up; at `coordinate` if given",
    "wait": "do nothing for `time` seconds",
    "terminate": "stop and report `status`",
}
_MOBILE_PARAMETERS: dict[str, Any] = {
    "coordinate": _POSITION,
    "coordinate2": _POSITION,
    "text": {"type": "string"},
    "time": _SECONDS,
    "button": {"type": "string", "enum": ["Back", "Home", "Menu", "Enter"]},
    "status": _STATUS,
}
_DESKTOP_PARAMETERS: dict[str, Any] = {
    "keys": {"type": "array", "items": {"type": "string"}},
    "text": {"type": "string"},
    "clear": {"type": "number", "enum": [0, 1]},
    "enter": {"type": "number", "enum": [0, 1]},
    "coordinate": _POSITION,
    "coordinate2": _POSITION,
    "pixels": {"type": "number"},
    "time": _SECONDS,
    "status": _STATUS,
}

_SYSTEM = """You operate a {device} for a user. At every turn you see the screen and do one thing, through this tool:
<tools>
{tool}
</tools>
Aim at the middle of what you want to press. Some apps are slow: wait and look again when nothing has changed yet.
Reply in exactly this form:
Thought: what you see, what is still missing, what to do next
<tool_call>
{"name": "{name}", "arguments": <arguments as a JSON object>}
</tool_call>
Conclusion: what this step does, with every value that later steps will need"""


def mobile_system_prompt() -> str:
    """System message of `mobile_use`, with the placeholder `{screen}` for the resolution."""
    return _system("phone", "mobile_use", MOBILE_ACTIONS, _MOBILE_PARAMETERS)


def desktop_system_prompt() -> str:
    """System message of `computer_use`, with the placeholder `{screen}` for the resolution."""
    return _system("computer", "computer_use", _DESKTOP_ACTIONS, _DESKTOP_PARAMETERS)


def _system(device: str, name: str, actions: dict[str, str], parameters: dict[str, Any]) -> str:
    listing = "; ".join(f"`{action}`: {meaning}" for action, meaning in actions.items())
    action = {"type": "string", "enum": list(actions), "description": listing}
    tool = {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Look at and operate a {device}. Coordinates are (x, y) on a screen of {{screen}}.",
            "parameters": {
                "type": "object",
                "properties": {"action": action} | parameters,
                "required": ["action"],
            },
        },
    }
    return _SYSTEM.replace("{device}", device).replace("{name}", name).replace("{tool}", json.dumps(tool))
