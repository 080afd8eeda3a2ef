"""The dialect of UI-TARS: a thought, then one call in Python's form; positions are pixels of the resized image.

    Thought: I need to open the menu.
    Action: click(start_box='(100,200)')

The published model wraps positions in `<|box_start|>` and `<|box_end|>`; both forms are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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
    Arguments,
    ArgumentsError,
    Form,
    are_storable,
    refusal,
    written_position,
    written_seconds,
)

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
_CLICKS: Mapping[type[Any], Mapping[str, int]] = {
    Scroll: {"up": _WHEEL_CLICKS, "down": -_WHEEL_CLICKS},
    HorizontalScroll: {"right": _WHEEL_CLICKS, "left": -_WHEEL_CLICKS},
}
"""By class of an action, the wheel clicks of each direction."""

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


_ANY_DEVICE = (
    ("click", Form(Click, ("start_box",), {"button": "left", "count": 1})),
    ("type", Form(TypeText, ("content",), {"clear": False})),
    ("wait", Form(Wait, (), {"seconds": _WAIT_SECONDS})),
    ("finished", Form(Answer, ("answer",))),
    ("finished", Form(Terminate, (), {"status": "success"})),
)


class _UiTars:
    name: ClassVar[str]
    actions: ClassVar[str]
    """The signature of each action, one a line."""
    forms: ClassVar[Sequence[tuple[str, Form]]]
    """A call stands for the first one that its arguments fit."""

    def system_prompt(self, frame: CoordinateFrame) -> str:
        # For UI-TARS the format is in the task's text.
        return _SYSTEM

    def task_text(self, instruction: str, guidance: str | None, past: Sequence[str]) -> str:
        """Write the format, the actions and the task; the earlier steps are in the replies that follow."""
        hints = f"\n\n## Guidance\n{guidance.strip()}" if guidance else ""
        return f"{_TASK.replace('{actions}', self.actions)}{instruction}{hints}"

    def parse(self, text: str, frame: CoordinateFrame) -> Reply | ParseFailure:
        seen = dialect_seen_in(text)
        if seen != UI_TARS:
            return ParseFailure(f"the reply is written as {seen} writes, not as {UI_TARS}" if seen else _no_call(text))
        before, call = _ACTION_LINE.split(text, 1)
        thought = before.strip().removeprefix(_THOUGHT).strip()
        if not are_storable(text):
            return ParseFailure("the reply is not valid Unicode")
        try:
            action = self._read(*read_call(call.strip(), frame))
        except ArgumentsError as error:
            return ParseFailure(str(error))
        closed = call.count("<|box_start|>") == call.count("<|box_end|>")
        return Reply(thought, action, " ".join(call.split()), "" if closed else "a box is not closed")

    def render(self, reply: Reply, frame: CoordinateFrame) -> str:
        call = self._written(reply.action, frame)
        if call is None or not are_storable(call):
            raise refusal(self.name, reply.action)
        thought = reply.thought.replace(_ACTION, "Action -").replace("tool_call>", "tool_call›")
        return f"{_THOUGHT} {thought.strip()}\n{_ACTION} {call}"

    def _read(self, called: str, given: Arguments) -> Action:
        for name, form in self.forms:
            if name == called:
                fields = [_read_argument(argument, form, given) for argument in form.arguments]
                if None not in fields:
                    values = dict(form.fixed)
                    for each in fields:
                        values |= each or {}
                    action: Action = form.kind(**values)
                    return action
        raise ArgumentsError(f"{self.name} has no action {called!r:.40}")

    def _written(self, action: Action, frame: CoordinateFrame) -> str | None:
        for call, form in self.forms:
            if type(action) is form.kind and form.fixed.items() <= vars(action).items():
                values = [_written_argument(name, action, frame) for name in form.arguments]
                if None not in values:
                    names = ("content" if name in ("answer", "newline") else name for name in form.arguments)
                    quoted = (f"'{(value or '').translate(_TO_WRITTEN)}'" for value in values)
                    pairs = map("=".join, zip(names, quoted, strict=True))
                    return f"{call}({', '.join(pairs)})"
        return None


@dataclass(frozen=True)
class UiTarsMobile(_UiTars):
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
    forms = (
        ("type", Form(SystemButton, ("newline",), {"button": "Enter"})),
        *_ANY_DEVICE,
        ("long_press", Form(LongPress, ("start_box", "time"))),
        ("scroll", Form(Swipe, ("start_box", "end_box"))),
        ("open_app", Form(OpenApp, ("app_name",))),
        ("press_home", Form(SystemButton, (), {"button": "Home"})),
        ("press_back", Form(SystemButton, (), {"button": "Back"})),
    )


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
    forms = (
        *_ANY_DEVICE,
        ("left_double", Form(Click, ("start_box",), {"button": "left", "count": 2})),
        ("right_single", Form(Click, ("start_box",), {"button": "right", "count": 1})),
        ("drag", Form(Drag, ("start_box", "end_box"))),
        ("hotkey", Form(PressKeys, ("key",))),
        ("scroll", Form(Scroll, ("start_box", "direction"))),
        ("scroll", Form(HorizontalScroll, ("start_box", "direction"))),
        ("call_user", Form(Terminate, (), {"status": "failure"})),
    )


def _read_argument(name: str, form: Form, given: Arguments) -> Mapping[str, object] | None:
    """Return the fields that an argument stands for; None if it belongs to another form of the same call."""
    match name:
        case "start_box":
            return given.position(name)._asdict()
        case "end_box":
            x2, y2 = given.position(name)
            return {"x2": x2, "y2": y2}
        case "content":
            content = given.text(name)
            return {"text": content.removesuffix("\n"), "enter": content.endswith("\n")}
        case "newline":
            return {} if given.text("content") == "\n" else None
        case "answer":
            return {"text": given.word("content")} if given.word("content") else None
        case "time":
            return {"seconds": given.seconds(1.0)}
        case "key":
            return {"keys": Arguments({"keys": given.text(name).split()}, given.frame).keys()}
        case "direction":
            direction, known = given.word(name).strip(), [each for clicks in _CLICKS.values() for each in clicks]
            if direction not in known:
                raise ArgumentsError(f"direction is not one of {', '.join(known)}")
            clicks = _CLICKS[form.kind].get(direction)
            return None if clicks is None else {"clicks": clicks}
        case _:
            return {"app": given.text(name)}


def _written_argument(name: str, action: Any, frame: CoordinateFrame) -> str | None:
    """Return the text of an argument; None if the form cannot express the action."""
    match name:
        case "start_box" if action.x is not None and action.y is not None:
            return _box(action.x, action.y, frame)
        case "end_box":
            return _box(action.x2, action.y2, frame)
        case "content" if action.enter or not action.text.endswith("\n"):
            return f"{action.text}\n" if action.enter else str(action.text)
        case "newline":
            return "\n"
        case "answer":
            return action.text or None
        case "time":
            return repr(written_seconds(action.seconds))
        case "key" if action.keys and all(key.split() == [key] for key in action.keys):
            return " ".join(action.keys)
        case "direction":
            return next((each for each, clicks in _CLICKS[type(action)].items() if clicks == action.clicks), None)
        case "app_name":
            return str(action.app)
        case _:
            return None


def _box(x: int, y: int, frame: CoordinateFrame) -> str:
    wide, high = written_position(x, y, frame)
    return f"({wide},{high})"


def _no_call(text: str) -> str:
    if "<tool_call>" in text:
        return f"the reply holds nothing but a JSON call; as {QWEN2_5_VL} writes it"
    return "no line in the reply begins with Action: and a call of ui-tars"


def read_call(text: str, frame: CoordinateFrame) -> tuple[str, Arguments]:
    """Parse a text that is one call. Raises ArgumentsError if the text is no call, or continues after the call."""
    name = _NAME.match(text)
    if not name:
        raise ArgumentsError("the action is not a call like click(start_box='(x,y)')")
    arguments: dict[str, Any] = {}
    at = name.end()
    while found := _ARGUMENT.match(text, at):
        if found[1] in arguments:
            raise ArgumentsError(f"{found[1]} is given twice")
        arguments[found[1]] = _value(_unescaped(found[2] if found[2] is not None else found[3]), found[1])
        at = found.end()
        if text[at : at + 1] != ",":
            break
        at += 1 + len(text[at + 1 :]) - len(text[at + 1 :].lstrip())
    if text[at:] != ")":
        raise ArgumentsError(f"the call of {name[1]:.40} has arguments that cannot be read, or something after it")
    return name[1], Arguments(arguments, frame)


def _value(text: str, name: str) -> list[float] | float | str | None:
    """An argument as a JSON call would have it; as it is written where it is malformed."""
    if name in ("start_box", "end_box") and (found := _POSITION.fullmatch(text.strip())):
        return [float(found[1]), float(found[2])]
    if name == "time":
        return float(text) if _NUMBER.fullmatch(text.strip()) else text.strip() or None
    return text


def _unescaped(text: str) -> str:
    """The text with escape sequences replaced; unknown ones are kept."""
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1] if found[1] in "\\'\"" else found[0]), text)
