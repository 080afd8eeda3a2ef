"""GUI-Owl v3: one JSON function call per turn, between a thought and a conclusion (paper 2.1, Figure 11).

    Thought: ...
    <tool_call>
    {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [360, 812]}}
    </tool_call>
    Conclusion: ...

The published model wraps thought and conclusion in `<thinking>` and `<conclusion>`; both forms are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    Drag,
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
from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace
from trajmill.schemas.dialects.base import Dialect, ParseFailure, Reply
from trajmill.schemas.dialects.gui_owl_v3_arguments import Arguments, ArgumentsError
from trajmill.schemas.dialects.gui_owl_v3_tools import desktop_system_prompt, mobile_system_prompt
from trajmill.schemas.geometry import Point
from trajmill.schemas.tables.query import Platform

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_MOUSE_CLICKS = {
    ("left", 1): "click",
    ("right", 1): "right_click",
    ("middle", 1): "middle_click",
    ("left", 2): "double_click",
}


class _GuiOwl:
    """What the phone's and the desktop's dialect share: the text around the call."""

    _tool: ClassVar[str]
    _system: ClassVar[str]

    def system_prompt(self, frame: CoordinateFrame) -> str:
        """The system message that teaches a model this format, for screens of the frame's resolution."""
        return self._system.replace("{screen}", _extent(frame), 1)

    def parse(self, text: str, frame: CoordinateFrame) -> Reply | ParseFailure:
        """Read a model's reply; any text whatever gives a reply or a failure."""
        start = text.find(_OPEN)
        if start < 0:
            return ParseFailure("no <tool_call> in the reply")
        end = text.find(_CLOSE, start)
        body = text[start + len(_OPEN) : end if end >= 0 else len(text)]
        after = text[end + len(_CLOSE) :] if end >= 0 else ""
        try:
            action = self._read(_arguments(body, self._tool, frame))
            thought, conclusion = _said(text[:start], "thinking", "Thought:"), _said(after, "conclusion", "Conclusion:")
        except ArgumentsError as error:
            return ParseFailure(str(error))
        return Reply(thought, action, conclusion)

    def render(self, reply: Reply, frame: CoordinateFrame) -> str:
        """Write a reply as the model would.

        Raises:
            ValueError: the platform's action space has no such action.
        """
        call = json.dumps({"name": self._tool, "arguments": self._write(reply.action, frame)}, ensure_ascii=False)
        # A typed "</tool_call>" must not end the call: inside JSON strings "<" may always be escaped.
        call = call.replace("<", "\\u003c")
        return f"Thought: {_safe(reply.thought)}\n{_OPEN}\n{call}\n{_CLOSE}\nConclusion: {_safe(reply.conclusion)}"

    def _read(self, arguments: Arguments) -> Action:
        raise NotImplementedError

    def _write(self, action: Action, frame: CoordinateFrame) -> Mapping[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class GuiOwlMobile(_GuiOwl):
    """The `mobile_use` tool (paper, Table 9)."""

    _tool = "mobile_use"
    _system = mobile_system_prompt()

    def _read(self, arguments: Arguments) -> Action:
        match arguments.word("action"):
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
            case "type":
                return TypeText(text=arguments.text())
            case "answer":
                return Answer(text=arguments.text())
            case "open":
                return OpenApp(app=arguments.text())
            case "system_button":
                return SystemButton(button=arguments.button())
            case "wait":
                return Wait(seconds=arguments.seconds(1.0))
            case "terminate":
                return Terminate(status=arguments.status())
            case other:
                raise ArgumentsError(f"mobile_use has no action {other!r:.40}")

    def _write(self, action: Action, frame: CoordinateFrame) -> Mapping[str, Any]:
        match action:
            case Click(x=x, y=y, button="left", count=1):
                return {"action": "click", "coordinate": _position(x, y, frame)}
            case LongPress(x=x, y=y, seconds=seconds):
                return {"action": "long_press", "coordinate": _position(x, y, frame), "time": seconds}
            case Swipe(x=x, y=y, x2=x2, y2=y2):
                return {
                    "action": "swipe",
                    "coordinate": _position(x, y, frame),
                    "coordinate2": _position(x2, y2, frame),
                }
            case PressKeys(keys=(key,)):
                return {"action": "key", "text": key}
            case TypeText(text=text, clear=False, enter=False) | Answer(text=text) | OpenApp(app=text):
                return {"action": action.kind, "text": text}
            case SystemButton(button=button):
                return {"action": "system_button", "button": button}
            case Wait(seconds=seconds):
                return {"action": "wait", "time": seconds}
            case Terminate(status=status):
                return {"action": "terminate", "status": status}
            case _:
                raise ValueError(f"mobile_use cannot say {action!r}")


@dataclass(frozen=True)
class GuiOwlDesktop(_GuiOwl):
    """The `computer_use` tool (paper, Table 10)."""

    _tool = "computer_use"
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
                return Scroll(x=at and at.x, y=at and at.y, clicks=arguments.wheel())
            case "key":
                return PressKeys(keys=arguments.keys())
            case "type":
                return TypeText(text=arguments.text(), clear=arguments.flag("clear"), enter=arguments.flag("enter"))
            case "wait":
                return Wait(seconds=arguments.seconds(1.0))
            case "terminate":
                return Terminate(status=arguments.status())
            case other:
                raise ArgumentsError(f"computer_use has no action {other!r:.40}")

    def _write(self, action: Action, frame: CoordinateFrame) -> Mapping[str, Any]:
        match action:
            case Click(x=x, y=y, button=button, count=count) if (button, count) in _MOUSE_CLICKS:
                return {"action": _MOUSE_CLICKS[button, count], "coordinate": _position(x, y, frame)}
            case MoveMouse(x=x, y=y):
                return {"action": "mouse_move", "coordinate": _position(x, y, frame)}
            case Drag(x=x, y=y, x2=x2, y2=y2):
                return {
                    "action": "drag",
                    "coordinate": _position(x, y, frame),
                    "coordinate2": _position(x2, y2, frame),
                }
            case Scroll(x=int() as x, y=int() as y, clicks=clicks):
                return {"action": "scroll", "coordinate": _position(x, y, frame), "pixels": clicks}
            case Scroll(clicks=clicks):
                return {"action": "scroll", "pixels": clicks}
            case PressKeys(keys=keys):
                return {"action": "key", "keys": list(keys)}
            case TypeText(text=text, clear=clear, enter=enter):
                return {"action": "type", "text": text, "clear": int(clear), "enter": int(enter)}
            case Wait(seconds=seconds):
                return {"action": "wait", "time": seconds}
            case Terminate(status=status):
                return {"action": "terminate", "status": status}
            case _:
                raise ValueError(f"computer_use cannot say {action!r}")


def dialect_for(platform: Platform) -> Dialect:
    """The GUI-Owl v3 dialect of a platform; browsers are driven like desktops."""
    return GuiOwlMobile() if platform is Platform.PHONE else GuiOwlDesktop()


def _arguments(body: str, tool: str, frame: CoordinateFrame) -> Arguments:
    try:
        call = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ArgumentsError("the tool call is not JSON") from error
    if not isinstance(call, dict) or call.get("name") != tool or not isinstance(call.get("arguments"), dict):
        raise ArgumentsError(f"the tool call is not a call of {tool}")
    return Arguments(call["arguments"], frame)


def _position(x: int, y: int, frame: CoordinateFrame) -> list[float]:
    written = frame.from_pixels(Point(x, y))
    return list(written) if frame.space is CoordinateSpace.UNIT else [int(written[0]), int(written[1])]


def _extent(frame: CoordinateFrame) -> str:
    match frame.space:
        case CoordinateSpace.RESIZED_PIXELS:
            return f"{frame.resized.width}x{frame.resized.height} pixels"
        case CoordinateSpace.PER_MILLE:
            return "1000x1000"
        case CoordinateSpace.PER_999:
            return "999x999"
        case CoordinateSpace.UNIT:
            return "1x1 (fractions)"


def _said(text: str, tag: str, label: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ArgumentsError("the reply is not valid Unicode") from error
    text = text.strip().removeprefix(f"<{tag}>").removesuffix(f"</{tag}>").strip()
    return text.removeprefix(label).strip()


def _safe(text: str) -> str:
    return text.replace("tool_call>", "tool_call›") if "tool_call>" in text else text
