"""The dialect of UI-TARS: a thought, then one call in Python's form; positions are pixels of the resized image.

    Thought: I need to open the menu.
    Action: click(start_box='(100,200)')

The published model wraps positions in `<|box_start|>` and `<|box_end|>`; both forms are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

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
from trajmill.schemas.dialects.base import QWEN2_5_VL, UI_TARS, ParseFailure, Reply, dialect_seen_in
from trajmill.schemas.dialects.tool_call import (
    LONGEST_SECONDS,
    ArgumentsError,
    refusal,
    storable,
    written_position,
    written_seconds,
)
from trajmill.schemas.geometry import Point

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

_NAME = re.compile(r"([a-z_]+)\(\s*")
# Models do not escape quotes within a text: a quote ends the text only before a comma, a bracket or the end.
_ARGUMENT = re.compile(
    r"""([a-z_0-9]+)\s*=\s*(?:'((?:\\.|[^'\\\n]|'(?!\s*[,)]))*)'|"((?:\\.|[^"\\\n]|"(?!\s*[,)]))*)")\s*"""
)
_POSITION = re.compile(
    r"(?:<\|box_start\|>)?\s*\(\s*(\d{1,6}(?:\.\d{1,6})?)\s*,\s*(\d{1,6}(?:\.\d{1,6})?)\s*\)\s*(?:<\|box_end\|>)?",
    re.ASCII,
)
_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,20})?(?:e-\d{1,3})?", re.ASCII)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANT = {"n": "\n", "t": "\t", "r": "\r"}
_WRITTEN = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_TO_WRITTEN = str.maketrans(_WRITTEN)


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
        """Write a reply as the model would. Raises NotExpressible if the dialect cannot express the action."""
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
        return f"the reply holds nothing but a JSON call; as {QWEN2_5_VL} writes it"
    return "no line in the reply begins with Action: and a call of ui-tars"


class UiTarsCall(NamedTuple):
    """A call and the frame of its positions; every value is checked before it is used."""

    name: str
    arguments: Mapping[str, str]
    frame: CoordinateFrame

    def has(self, name: str) -> bool:
        """Whether the argument was given."""
        return name in self.arguments

    def text(self, name: str) -> str:
        """A text."""
        if name not in self.arguments:
            raise ArgumentsError(f"{self.name} has no {name}")
        return self.arguments[name]

    def position(self, name: str) -> Point:
        """A position on the screen in pixels of the stored screenshot."""
        found = _POSITION.fullmatch(self.text(name).strip())
        if not found:
            raise ArgumentsError(f"{name} is not a position (x,y)")
        (x, y), (wide, high) = (float(found[1]), float(found[2])), self.frame.extent
        if x > wide or y > high:
            raise ArgumentsError(f"{name} is not within {wide:g}x{high:g}")
        return self.frame.to_pixels(x, y)

    def seconds(self, name: str, default: float) -> float:
        """A duration, or the default."""
        written = self.arguments.get(name, "").strip()
        if not written:
            return default
        if not _NUMBER.fullmatch(written) or float(written) > LONGEST_SECONDS:
            raise ArgumentsError(f"{name} holds no number between 0 and {LONGEST_SECONDS:g}")
        return float(written)

    def keys(self, name: str) -> tuple[str, ...]:
        """Keys that are separated by spaces, at least one."""
        keys = tuple(self.text(name).split())
        if not keys:
            raise ArgumentsError(f"{name} names no key")
        return keys

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        """One of the given words."""
        word = self.text(name).strip()
        if word not in choices:
            raise ArgumentsError(f"{name} is not one of {', '.join(choices)}")
        return word


def read_call(text: str, frame: CoordinateFrame) -> UiTarsCall:
    """Parse a text that is one call. Raises ArgumentsError if the text is no call, or continues after the call."""
    name = _NAME.match(text)
    if not name:
        raise ArgumentsError("the action is not a call like click(start_box='(x,y)')")
    arguments: dict[str, str] = {}
    at = name.end()
    while found := _ARGUMENT.match(text, at):
        if found[1] in arguments:
            raise ArgumentsError(f"{found[1]} is given twice")
        arguments[found[1]] = _unescaped(found[2] if found[2] is not None else found[3])
        at = found.end()
        if text[at : at + 1] != ",":
            break
        at += 1 + len(text[at + 1 :]) - len(text[at + 1 :].lstrip())
    if text[at:] != ")":
        raise ArgumentsError(f"the call of {name[1]:.40} has arguments that cannot be read, or something after it")
    return UiTarsCall(name[1], arguments, frame)


def written_call(name: str, **arguments: str) -> str:
    """A call with its arguments in single quotes."""
    return f"{name}({', '.join(f'{key}={_quoted(value)}' for key, value in arguments.items())})"


def _quoted(text: str) -> str:
    return "'" + text.translate(_TO_WRITTEN) + "'"


def _unescaped(text: str) -> str:
    """The text with escape sequences replaced; unknown ones are kept."""
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1] if found[1] in "\\'\"" else found[0]), text)
