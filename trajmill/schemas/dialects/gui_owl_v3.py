"""The dialect of GUI-Owl v3: a JSON function call between a thought and a conclusion (paper 2.1, Figure 11).

    Thought: ...
    <tool_call>
    {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [360, 812]}}
    </tool_call>
    Conclusion: ...

The published model wraps thought and conclusion in `<thinking>` and `<conclusion>`; both forms are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from trajmill.schemas.actions import (
    Action,
    Click,
    Drag,
    MoveMouse,
    PressKeys,
    Scroll,
    Terminate,
    TypeText,
    Wait,
)
from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace
from trajmill.schemas.dialects.arguments import Arguments, ArgumentsError
from trajmill.schemas.dialects.base import Dialect
from trajmill.schemas.dialects.gui_owl_v3_tools import MOBILE_ACTIONS, desktop_system_prompt, mobile_system_prompt
from trajmill.schemas.dialects.published_calls import COMPUTER_USE, MOBILE_USE, read_call, written_call
from trajmill.schemas.dialects.signs import GUI_OWL_V3, unknown_action
from trajmill.schemas.dialects.tool_call import (
    CallText,
    ToolCallDialect,
    Words,
    refusal,
    written_extent,
    written_position,
    written_seconds,
)
from trajmill.schemas.dialects.user_text import compose
from trajmill.schemas.tables.query import Platform

_UNTAGGED = r"(?:(?!</?conclusion>).)*"
_CONCLUSION = re.compile(rf"Conclusion:{_UNTAGGED}|<conclusion>{_UNTAGGED}</conclusion>", re.DOTALL)
_MOST_WHEEL_CLICKS = 5
_MOUSE_CLICKS = {
    ("left", 1): "click",
    ("right", 1): "right_click",
    ("middle", 1): "middle_click",
    ("left", 2): "double_click",
}


class _GuiOwl(ToolCallDialect):
    """What the dialects of phone and desktop share: the text around the call."""

    written_by = (GUI_OWL_V3,)
    _system: ClassVar[str]

    def system_prompt(self, frame: CoordinateFrame) -> str:
        """The system message that teaches a model this format, for screens of the frame's resolution."""
        return self._system.replace("{screen}", _extent(frame), 1)

    def task_text(self, instruction: str, guidance: str | None, past: Sequence[str]) -> str:
        """The user text; the embedded policy reads it too."""
        return compose(instruction, guidance, past)

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
    _system = mobile_system_prompt()

    def _read(self, arguments: Arguments) -> Action:
        return read_call(self.tool, arguments, MOBILE_ACTIONS)

    def _write(self, action: Action, frame: CoordinateFrame) -> Mapping[str, Any]:
        return written_call(self.tool, action, frame, MOBILE_ACTIONS)


@dataclass(frozen=True)
class GuiOwlDesktop(_GuiOwl):
    """The `computer_use` tool (paper, Table 10)."""

    tool = COMPUTER_USE
    _system = desktop_system_prompt()

    def _read(self, arguments: Arguments) -> Action:
        match arguments.word("action"):
            case "click" | "right_click" | "middle_click" | "double_click" as action:
                x, y = arguments.position("coordinate")
                button, count = next(press for press, name in _MOUSE_CLICKS.items() if name == action)
                return Click.model_validate({"x": x, "y": y, "button": button, "count": count})
            case "mouse_move":
                x, y = arguments.position("coordinate")
                return MoveMouse(x=x, y=y)
            case "drag":
                (x, y), (x2, y2) = arguments.position("coordinate"), arguments.position("coordinate2")
                return Drag(x=x, y=y, x2=x2, y2=y2)
            case "scroll":
                at = arguments.position("coordinate") if arguments.has("coordinate") else None
                return Scroll(x=at and at.x, y=at and at.y, clicks=arguments.wheel(_MOST_WHEEL_CLICKS))
            case "key":
                return PressKeys(keys=arguments.keys())
            case "type":
                return TypeText(text=arguments.text(), clear=arguments.flag("clear"), enter=arguments.flag("enter"))
            case "wait":
                return Wait(seconds=arguments.seconds(1.0))
            case "terminate":
                return Terminate(status=arguments.status())
            case other:
                raise ArgumentsError(unknown_action(self.tool, other))

    def _write(self, action: Action, frame: CoordinateFrame) -> Mapping[str, Any]:
        match action:
            case Click(x=x, y=y, button=button, count=count) if (button, count) in _MOUSE_CLICKS:
                return {"action": _MOUSE_CLICKS[button, count], "coordinate": written_position(x, y, frame)}
            case MoveMouse(x=x, y=y):
                return {"action": "mouse_move", "coordinate": written_position(x, y, frame)}
            case Drag(x=x, y=y, x2=x2, y2=y2):
                return {
                    "action": "drag",
                    "coordinate": written_position(x, y, frame),
                    "coordinate2": written_position(x2, y2, frame),
                }
            case Scroll(x=int() as x, y=int() as y, clicks=clicks) if abs(clicks) <= _MOST_WHEEL_CLICKS:
                return {"action": "scroll", "coordinate": written_position(x, y, frame), "pixels": clicks}
            case Scroll(x=None, y=None, clicks=clicks) if abs(clicks) <= _MOST_WHEEL_CLICKS:
                return {"action": "scroll", "pixels": clicks}
            case PressKeys(keys=keys) if keys:
                return {"action": "key", "keys": list(keys)}
            case TypeText(text=text, clear=clear, enter=enter):
                return {"action": "type", "text": text, "clear": int(clear), "enter": int(enter)}
            case Wait(seconds=seconds):
                return {"action": "wait", "time": written_seconds(seconds)}
            case Terminate(status=status):
                return {"action": "terminate", "status": status}
            case _:
                raise refusal(self.tool, action)


def dialect_for(platform: Platform) -> Dialect:
    """The GUI-Owl v3 dialect of a platform; browsers have the dialect of desktops."""
    return GuiOwlMobile() if platform is Platform.PHONE else GuiOwlDesktop()


def _extent(frame: CoordinateFrame) -> str:
    """The size of the screen, in the words that the embedded policy was trained with."""
    match frame.space:
        case CoordinateSpace.RESIZED_PIXELS:
            return f"{written_extent(frame)} pixels"
        case CoordinateSpace.UNIT:
            return "1x1 (fractions)"
        case _:
            return written_extent(frame)


def _tagged_text(text: str, tag: str, label: str) -> str:
    """The text within the tag, or all of it without one, less its label; what follows the closing tag is left out."""
    before, opened, inner = text.partition(f"<{tag}>")
    said = (inner if opened else before).partition(f"</{tag}>")[0]
    return said.strip().removeprefix(label).strip()
