"""The dialect of UI-TARS: a thought, then one call in Python's form; positions are pixels of the resized image.

    Thought: I need to open the menu.
    Action: click(start_box='(100,200)')

The published model wraps positions in `<|box_start|>` and `<|box_end|>`; both forms are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    Drag,
    HorizontalScroll,
    LongPress,
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
from trajmill.schemas.dialects.arguments import ArgumentsError
from trajmill.schemas.dialects.base import ParseFailure, Reply
from trajmill.schemas.dialects.signs import QWEN2_5_VL, UI_TARS, dialect_seen_in
from trajmill.schemas.dialects.tool_call import refusal, storable, written_position, written_seconds
from trajmill.schemas.dialects.ui_tars.call import UiTarsCall, read_call, written_call

_ACTION_LINE = re.compile(r"^Action:", re.MULTILINE)
_SYSTEM = "You are a helpful assistant."
_TASK = """You operate a device for a user. You see its screen, the task, and what you did so far; say what to do next.

## Output Format
Thought: ...
Action: ...

## Action Space
{actions}

## Note
- In `Thought`, plan shortly and say in one sentence what you do next, and with which element.
- Write \\', \\" and \\n within a text for quotes and line breaks.

## User Instruction
"""
_THOUGHT, _ACTION = "Thought:", "Action:"
_WHEEL_CLICKS = 5
"""Wheel clicks of one `scroll`."""
_WAIT_SECONDS = 5.0
"""Seconds of one `wait`."""
_VERTICAL = {"up": _WHEEL_CLICKS, "down": -_WHEEL_CLICKS}
_SIDEWAYS = {"right": _WHEEL_CLICKS, "left": -_WHEEL_CLICKS}


class _UiTars:
    """What the dialects of phone and desktop share."""

    name: ClassVar[str]
    actions: ClassVar[str]
    """The signature of each action, one a line."""

    def system_prompt(self, frame: CoordinateFrame) -> str:
        """A message without the format, because for UI-TARS the format is in the task's text."""
        return _SYSTEM

    def task_text(self, instruction: str, guidance: str | None, past: Sequence[str]) -> str:
        """The format, the actions and the task; the earlier steps are in the replies that follow."""
        hints = f"\n\n## Guidance\n{guidance.strip()}" if guidance else ""
        return f"{_TASK.replace('{actions}', self.actions)}{instruction}{hints}"

    def parse(self, text: str, frame: CoordinateFrame) -> Reply | ParseFailure:
        """Parse a model's reply; every text gives a reply or a failure."""
        seen = dialect_seen_in(text)
        if seen != UI_TARS:
            return ParseFailure(f"the reply is written as {seen} writes, not as {UI_TARS}" if seen else _no_call(text))
        before, call = _ACTION_LINE.split(text, 1)
        thought = before.strip().removeprefix(_THOUGHT).strip()
        if not storable(text):
            return ParseFailure("the reply is not valid Unicode")
        try:
            action = self._read(read_call(call.strip(), frame))
        except ArgumentsError as error:
            return ParseFailure(str(error))
        closed = call.count("<|box_start|>") == call.count("<|box_end|>")
        return Reply(thought, action, " ".join(call.split()), "" if closed else "a box is not closed")

    def render(self, reply: Reply, frame: CoordinateFrame) -> str:
        """Write a reply as the model would.

        Raises:
            NotExpressible: the dialect cannot express the action.
        """
        call = self._write(reply.action, frame)
        if call is None or not storable(call):
            raise refusal(self.name, reply.action)
        thought = reply.thought.replace(_ACTION, "Action -").replace("tool_call>", "tool_call›")
        return f"{_THOUGHT} {thought.strip()}\n{_ACTION} {call}"

    def _read(self, call: UiTarsCall) -> Action:
        match call.name:
            case "click":
                x, y = call.position("start_box")
                return Click(x=x, y=y)
            case "type":
                content = call.text("content")
                return TypeText(text=content.removesuffix("\n"), enter=content.endswith("\n"))
            case "wait":
                return Wait(seconds=_WAIT_SECONDS)
            case "finished":
                content = call.text("content") if call.has("content") else ""
                return Answer(text=content) if content else Terminate(status="success")
            case other:
                raise ArgumentsError(f"{self.name} has no action {other!r:.40}")

    def _write(self, action: Action, frame: CoordinateFrame) -> str | None:
        match action:
            case Click(x=x, y=y, button="left", count=1):
                return written_call("click", start_box=_box(x, y, frame))
            case TypeText(text=text, clear=False, enter=enter) if enter or not text.endswith("\n"):
                return written_call("type", content=text + ("\n" if enter else ""))
            case Wait(seconds=seconds) if seconds == _WAIT_SECONDS:
                return written_call("wait")
            case Answer(text=text) if text:
                return written_call("finished", content=text)
            case Terminate(status="success"):
                return written_call("finished")
            case _:
                return None


@dataclass(frozen=True)
class UiTarsMobile(_UiTars):
    """The actions on a phone."""

    name = "ui-tars on a phone"
    actions = """click(start_box='(x1,y1)')
long_press(start_box='(x1,y1)', time='')
type(content='')  # with \\n at the end, Enter is pressed afterwards
scroll(start_box='(x1,y1)', end_box='(x3,y3)')
open_app(app_name='')
press_home()
press_back()
wait()  # for five seconds
finished(content='')  # the task is done; content answers a question"""

    def _read(self, call: UiTarsCall) -> Action:
        match call.name:
            case "long_press":
                x, y = call.position("start_box")
                return LongPress(x=x, y=y, seconds=call.seconds("time", 1.0))
            case "scroll":
                (x, y), (x2, y2) = call.position("start_box"), call.position("end_box")
                return Swipe(x=x, y=y, x2=x2, y2=y2)
            case "open_app":
                return OpenApp(app=call.text("app_name"))
            case "press_home":
                return SystemButton(button="Home")
            case "press_back":
                return SystemButton(button="Back")
            case _:
                return super()._read(call)

    def _write(self, action: Action, frame: CoordinateFrame) -> str | None:
        match action:
            case LongPress(x=x, y=y, seconds=seconds):
                return written_call("long_press", start_box=_box(x, y, frame), time=repr(written_seconds(seconds)))
            case Swipe(x=x, y=y, x2=x2, y2=y2):
                return written_call("scroll", start_box=_box(x, y, frame), end_box=_box(x2, y2, frame))
            case OpenApp(app=app):
                return written_call("open_app", app_name=app)
            case SystemButton(button="Home"):
                return written_call("press_home")
            case SystemButton(button="Back"):
                return written_call("press_back")
            case _:
                return super()._write(action, frame)


@dataclass(frozen=True)
class UiTarsDesktop(_UiTars):
    """The actions on a desktop or in a browser."""

    name = "ui-tars on a desktop"
    actions = """click(start_box='(x1,y1)')
left_double(start_box='(x1,y1)')
right_single(start_box='(x1,y1)')
drag(start_box='(x1,y1)', end_box='(x3,y3)')
hotkey(key='')  # names of keys with spaces between them
type(content='')  # with \\n at the end, Enter is pressed afterwards
scroll(start_box='(x1,y1)', direction='down or up or right or left')
wait()  # for five seconds
finished(content='')  # the task is done; content answers a question
call_user()  # the task cannot be done"""

    def _read(self, call: UiTarsCall) -> Action:
        match call.name:
            case "left_double":
                x, y = call.position("start_box")
                return Click(x=x, y=y, count=2)
            case "right_single":
                x, y = call.position("start_box")
                return Click(x=x, y=y, button="right")
            case "drag":
                (x, y), (x2, y2) = call.position("start_box"), call.position("end_box")
                return Drag(x=x, y=y, x2=x2, y2=y2)
            case "hotkey":
                return PressKeys(keys=call.keys("key"))
            case "scroll":
                x, y = call.position("start_box")
                direction = call.one_of("direction", (*_VERTICAL, *_SIDEWAYS))
                if direction in _VERTICAL:
                    return Scroll(x=x, y=y, clicks=_VERTICAL[direction])
                return HorizontalScroll(x=x, y=y, clicks=_SIDEWAYS[direction])
            case "call_user":
                return Terminate(status="failure")
            case _:
                return super()._read(call)

    def _write(self, action: Action, frame: CoordinateFrame) -> str | None:
        match action:
            case Click(x=x, y=y, button="left", count=2):
                return written_call("left_double", start_box=_box(x, y, frame))
            case Click(x=x, y=y, button="right", count=1):
                return written_call("right_single", start_box=_box(x, y, frame))
            case Drag(x=x, y=y, x2=x2, y2=y2):
                return written_call("drag", start_box=_box(x, y, frame), end_box=_box(x2, y2, frame))
            case PressKeys(keys=keys) if keys and all(key.split() == [key] for key in keys):
                return written_call("hotkey", key=" ".join(keys))
            case Scroll(x=int() as x, y=int() as y, clicks=clicks) if clicks in _VERTICAL.values():
                direction = "up" if clicks > 0 else "down"
                return written_call("scroll", start_box=_box(x, y, frame), direction=direction)
            case HorizontalScroll(x=int() as x, y=int() as y, clicks=clicks) if clicks in _SIDEWAYS.values():
                direction = "right" if clicks > 0 else "left"
                return written_call("scroll", start_box=_box(x, y, frame), direction=direction)
            case Terminate(status="failure"):
                return written_call("call_user")
            case _:
                return super()._write(action, frame)


def _box(x: int, y: int, frame: CoordinateFrame) -> str:
    wide, high = written_position(x, y, frame)
    return f"({wide},{high})"


def _no_call(text: str) -> str:
    if "<tool_call>" in text:
        return f"the reply holds nothing but a JSON call; so writes {QWEN2_5_VL}"
    return "no line in the reply begins with Action: and a call of ui-tars"
