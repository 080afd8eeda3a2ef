"""The base of dialects whose action is one JSON function call, as all models of the Qwen family write it.

    <tool_call>
    {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [360, 812]}}
    </tool_call>

Dialects differ in the tool, in the names of its actions, and in the text before and after the call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from trajmill.schemas.actions import Action, Click
from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace
from trajmill.schemas.dialects.base import NotExpressible, ParseFailure, Reply, dialect_seen_in, unknown_action
from trajmill.schemas.geometry import Point

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_THOUGHT_TAGS = ("think", "thinking")
"""A chat template may have opened one before the reply begins."""

LONGEST_SECONDS = 600.0


class ArgumentsError(Exception):
    """A call is no valid action; this error does not leave the dialect."""


class Arguments(NamedTuple):
    """The JSON object of a model's arguments, and the frame of its coordinates."""

    values: dict[str, Any]
    frame: CoordinateFrame

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def word(self, name: str) -> str:
        """A string; empty if it is missing or no string."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def text(self, name: str = "text") -> str:
        """Any string that can be stored as UTF-8."""
        return _checked_text(self.values.get(name), name)

    def position(self, name: str) -> Point:
        """A position on the screen in pixels of the stored screenshot."""
        value = self.values.get(name)
        if not isinstance(value, list) or len(value) != 2:
            raise ArgumentsError(f"{name} is not a position of two numbers")
        wide, high = self.frame.extent
        return self.frame.to_pixels(_number(value[0], name, 0.0, wide), _number(value[1], name, 0.0, high))

    def seconds(self, default: float) -> float:
        return _number(self.values["time"], "time", 0.0, LONGEST_SECONDS) if self.has("time") else default

    def wheel(self, most: int) -> int:
        """The `pixels` argument: at most `most` wheel clicks; positive is up, or to the right."""
        return round(_number(self.values.get("pixels"), "pixels", -most, most))

    def flag(self, name: str) -> bool:
        """A 0 or 1; 0 if it is missing."""
        value = self.values.get(name)
        if value not in (None, 0, 1):
            raise ArgumentsError(f"{name} is neither 0 nor 1")
        return bool(value)

    def keys(self) -> tuple[str, ...]:
        value = self.values.get("keys")
        if not isinstance(value, list) or not value:
            raise ArgumentsError("keys is not a list of key names")
        return tuple(_checked_text(key, "keys") for key in value)

    def choice(self, name: str, *known: str) -> str:
        """One of several words."""
        if self.word(name) not in known:
            raise ArgumentsError(f"{name} is not one of {', '.join(known)}")
        return self.word(name)


def _number(value: Any, name: str, low: float, high: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise ArgumentsError(f"{name} holds no number between {low:g} and {high:g}")
    return float(value)


def _checked_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ArgumentsError(f"{name} is not a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentsError(f"{name} is not valid Unicode") from error
    return value


class CallText(NamedTuple):
    before: str
    body: str
    after: str


class Words(NamedTuple):
    """The texts of a reply besides its action."""

    thought: str
    conclusion: str
    order: str = ""
    """What the reply says to do, in a dialect that writes it."""


class Form(NamedTuple):
    """How a tool writes an action: the action's class, the fields that its name decides, and the arguments."""

    kind: type[Any]
    arguments: tuple[str, ...] = ()
    """Each stands for one or two fields of the action, in the order in which they are written."""
    fixed: Mapping[str, object] = {}


def mouse_click(button: str, count: int) -> Form:
    return Form(Click, ("coordinate",), {"button": button, "count": count})


class ToolCallDialect:
    """What all dialects with function calls share."""

    tool: str
    most_wheel_clicks: ClassVar[int] = 1000
    """The published tool has no bound; no machine scrolls farther."""
    written_by: ClassVar[tuple[str, ...]]
    """Dialects whose typical form a reply in this dialect may have."""

    @property
    def forms(self) -> Mapping[str, Form]:
        """Its actions, by name."""
        raise NotImplementedError

    def parse(self, text: str, frame: CoordinateFrame) -> Reply | ParseFailure:
        seen = dialect_seen_in(text)
        if seen and seen not in self.written_by:
            return ParseFailure(f"the reply is written as {seen} writes, not as {self.written_by[0]}")
        call = cut_at_call(text)
        if call is None:
            return ParseFailure("no <tool_call> in the reply")
        try:
            action = self._read(_arguments(call.body, self.tool, frame))
            words = self._words(call)
            if not are_storable(*words):
                raise ArgumentsError("the reply is not valid Unicode")
        except ArgumentsError as error:
            return ParseFailure(str(error))
        return Reply(words.thought, action, words.conclusion, self._slip(text, call), words.order)

    def render(self, reply: Reply, frame: CoordinateFrame) -> str:
        """Write a reply as the model would. Raises NotExpressible if the dialect cannot express the action."""
        call = json.dumps({"name": self.tool, "arguments": self._write(reply.action, frame)}, ensure_ascii=False)
        # A typed "</tool_call>" must not end the call, so "<" is escaped within JSON strings.
        escaped = call.replace("<", "\\u003c")
        if not are_storable(escaped):
            raise refusal(self.tool, reply.action)
        texts = (reply.thought, reply.conclusion, self._order(reply, frame))
        words = Words(*(text.replace("tool_call>", "tool_call›") for text in texts))
        return self._around(f"{_OPEN}\n{escaped}\n{_CLOSE}", words)

    def _read(self, given: Arguments) -> Action:
        form = self.forms.get(given.word("action"))
        if form is None:
            raise ArgumentsError(unknown_action(self.tool, given.word("action")))
        values = dict(form.fixed)
        for name in form.arguments:
            values |= self._read_argument(name, given)
        action: Action = form.kind(**values)
        return action

    def _write(self, action: Action, frame: CoordinateFrame) -> Mapping[str, Any]:
        for name, form in self.forms.items():
            if type(action) is form.kind and form.fixed.items() <= vars(action).items():
                arguments = [self._written_argument(each, action, frame) for each in form.arguments]
                return dict(pair for each in ({"action": name}, *arguments) for pair in each.items())
        raise refusal(self.tool, action)

    def _read_argument(self, name: str, given: Arguments) -> Mapping[str, object]:
        """The fields that an argument of a form stands for."""
        match name:
            case "coordinate":
                return given.position(name)._asdict()
            case "coordinate2":
                x2, y2 = given.position(name)
                return {"x2": x2, "y2": y2}
            case "wheel":
                at = given.position("coordinate") if given.has("coordinate") else None
                return {"x": at and at.x, "y": at and at.y, "clicks": given.wheel(self.most_wheel_clicks)}
            case "text" | "app":
                return {name: given.text()}
            case "keyevent":
                return {"keys": (given.text(),)}
            case "keys":
                return {"keys": given.keys()}
            case "time":
                return {"seconds": given.seconds(1.0)}
            case "button":
                return {name: given.choice(name, "Back", "Home", "Menu", "Enter")}
            case "status":
                return {name: given.choice(name, "success", "failure")}
            case _:
                return {name: given.flag(name)}

    def _written_argument(self, name: str, action: Any, frame: CoordinateFrame) -> Mapping[str, Any]:
        match name:
            case "coordinate":
                return {name: written_position(action.x, action.y, frame)}
            case "coordinate2":
                return {name: written_position(action.x2, action.y2, frame)}
            case "wheel" if abs(action.clicks) <= self.most_wheel_clicks and (action.x is None) == (action.y is None):
                at = {} if action.x is None else {"coordinate": written_position(action.x, action.y, frame)}
                return at | {"pixels": action.clicks}
            case "text" | "app":
                return {"text": getattr(action, name)}
            case "keyevent" if len(action.keys) == 1:
                return {"text": action.keys[0]}
            case "keys" if action.keys:
                return {name: list(action.keys)}
            case "time":
                return {name: written_seconds(action.seconds)}
            case "button" | "status":
                return {name: getattr(action, name)}
            case "clear" | "enter":
                return {name: int(getattr(action, name))}
            case _:
                raise refusal(self.tool, action)

    def _words(self, call: CallText) -> Words:
        raise NotImplementedError

    def _around(self, call: str, words: Words) -> str:
        raise NotImplementedError

    def _order(self, reply: Reply, frame: CoordinateFrame) -> str:
        """The order that the reply says; empty in a dialect without one."""
        return ""

    def _slip(self, text: str, call: CallText) -> str:
        if text.count(_OPEN) != 1 or text.count(_CLOSE) != 1:
            return "it is not exactly one closed <tool_call>"
        if any(call.before.count(f"<{tag}>") > call.before.count(f"</{tag}>") for tag in _THOUGHT_TAGS):
            return "its thought is not closed"
        return "" if self._may_end(call.after.strip()) else "something follows what it should end with"

    def _may_end(self, after: str) -> bool:
        """Whether a reply may end with this text after its call."""
        return not after


def cut_at_call(text: str) -> CallText | None:
    """A reply split at its first call; None without a call.

    A call that is not closed goes to the end. What comes from a second call on is left out.
    """
    before, found, rest = text.partition(_OPEN)
    if not found:
        return None
    body, _, after = rest.partition(_CLOSE)
    return CallText(before, body, after.partition(_OPEN)[0])


def written_position(x: int, y: int, frame: CoordinateFrame) -> list[float]:
    """A position in the frame's space. Raises NotExpressible if it is not on the screen."""
    if not (0 <= x < frame.screen.width and 0 <= y < frame.screen.height):
        raise NotExpressible(f"({x}, {y}) is not on a screen of {frame.screen.width}x{frame.screen.height}")
    written = frame.from_pixels(Point(x, y))
    return list(written) if frame.space is CoordinateSpace.UNIT else [int(written[0]), int(written[1])]


def written_seconds(seconds: float) -> float:
    """A duration for a reply. Raises NotExpressible if it is too long."""
    if not 0.0 <= seconds <= LONGEST_SECONDS:
        raise NotExpressible(f"{seconds:g} s are not between 0 and {LONGEST_SECONDS:g}")
    return seconds + 0.0  # Zero may have had a sign, which no dialect reads.


def written_extent(frame: CoordinateFrame) -> str:
    """The size of the screen in the frame's space, for a system message."""
    return "{:.0f}x{:.0f}".format(*frame.extent)


def refusal(tool: str, action: Action) -> NotExpressible:
    return NotExpressible(f"{tool} cannot say {action!r:.200}")


def are_storable(*texts: str) -> bool:
    """Whether texts can be stored as UTF-8; a model's text may have lone surrogates."""
    try:
        return all(text.isascii() or text.encode() for text in texts)
    except UnicodeEncodeError:
        return False


def _arguments(body: str, tool: str, frame: CoordinateFrame) -> Arguments:
    try:
        call = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ArgumentsError("the tool call is not JSON") from error
    if not isinstance(call, dict) or call.get("name") != tool or not isinstance(call.get("arguments"), dict):
        raise ArgumentsError(f"the tool call is not a call of {tool}")
    return Arguments(call["arguments"], frame)
