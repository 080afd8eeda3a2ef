"""The dialect of GUI-Owl v3: a JSON function call between a thought and a conclusion (paper 2.1, Figure 11).

    Thought: ...
    <tool_call>
    {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [360, 812]}}
    </tool_call>
    Conclusion: ...

Names, parameters and value sets of the tools are those of the published model (Tables 9 and 10); the descriptions are
ours. The published model wraps thought and conclusion in `<thinking>` and `<conclusion>`; both forms are parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from trajmill.schemas.actions import Drag, TypeText
from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace
from trajmill.schemas.dialects.base import GUI_OWL_V3
from trajmill.schemas.dialects.published_tools import COMPUTER_USE, MOBILE_USE, published_forms
from trajmill.schemas.dialects.tool_call import CallText, Form, ToolCallDialect, Words, mouse_click, written_extent
from trajmill.schemas.dialects.user_text import end_to_end_prompt

_UNTAGGED = r"(?:(?!</?conclusion>).)*"
_CONCLUSION = re.compile(rf"Conclusion:{_UNTAGGED}|<conclusion>{_UNTAGGED}</conclusion>", re.DOTALL)
_POSITION = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
_STATUS = {"type": "string", "enum": ["success", "failure"], "description": "Outcome to report with `terminate`."}
_SECONDS = {"type": "number", "description": "Duration in seconds."}

_MOBILE_ACTIONS = {
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
_OWN_FORMS = {
    "click": mouse_click("left", 1),
    "drag": Form(Drag, ("coordinate", "coordinate2")),
    "type": Form(TypeText, ("text", "clear", "enter")),
}
"""Of the desktop's actions, those that the published tool names or fills otherwise."""
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


def _system_prompt(device: str, name: str, actions: dict[str, str], parameters: dict[str, Any]) -> str:
    listing = "; ".join(f"`{action}`: {meaning}" for action, meaning in actions.items())
    action = {"type": "string", "enum": list(actions), "description": listing}
    tool = {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Look at and operate a {device}. Coordinates are (x, y) on a screen of {{screen}}.",
            "parameters": {"type": "object", "properties": {"action": action} | parameters, "required": ["action"]},
        },
    }
    return _SYSTEM.replace("{device}", device).replace("{name}", name).replace("{tool}", json.dumps(tool))


class _GuiOwl(ToolCallDialect):
    written_by = (GUI_OWL_V3,)
    _system: ClassVar[str]

    def system_prompt(self, frame: CoordinateFrame) -> str:
        # In the words that the embedded policy was trained with.
        unit = {CoordinateSpace.RESIZED_PIXELS: " pixels", CoordinateSpace.UNIT: " (fractions)"}.get(frame.space, "")
        return self._system.replace("{screen}", written_extent(frame) + unit, 1)

    def task_text(self, instruction: str, guidance: str | None, past: Sequence[str]) -> str:
        return end_to_end_prompt(instruction, guidance, past)

    def _words(self, call: CallText) -> Words:
        return Words(
            _tagged_text(call.before, "thinking", "Thought:"), _tagged_text(call.after, "conclusion", "Conclusion:")
        )

    def _around(self, call: str, words: Words) -> str:
        return f"Thought: {words.thought}\n{call}\nConclusion: {words.conclusion}"

    def _may_end(self, after: str) -> bool:
        return not after or _CONCLUSION.fullmatch(after) is not None


@dataclass(frozen=True)
class GuiOwlMobile(_GuiOwl):
    """The `mobile_use` tool (paper, Table 9)."""

    tool = MOBILE_USE
    forms = published_forms(MOBILE_USE, tuple(_MOBILE_ACTIONS))
    _system = _system_prompt("phone", MOBILE_USE, _MOBILE_ACTIONS, _MOBILE_PARAMETERS)


@dataclass(frozen=True)
class GuiOwlDesktop(_GuiOwl):
    """The `computer_use` tool (paper, Table 10)."""

    tool = COMPUTER_USE
    most_wheel_clicks = 5
    forms = {
        **published_forms(COMPUTER_USE, tuple(name for name in _DESKTOP_ACTIONS if name not in _OWN_FORMS)),
        **_OWN_FORMS,
    }
    _system = _system_prompt("computer", COMPUTER_USE, _DESKTOP_ACTIONS, _DESKTOP_PARAMETERS)


def _tagged_text(text: str, tag: str, label: str) -> str:
    """The text within the tag, or all of it without one, less its label; what follows the closing tag is left out."""
    before, opened, inner = text.partition(f"<{tag}>")
    said = (inner if opened else before).partition(f"</{tag}>")[0]
    return said.strip().removeprefix(label).strip()
