"""Parses the code of AgentNet's actions, e.g. `pyautogui.click(x=0.97, y=0.5)`, as literals; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    Drag,
    DragTo,
    HorizontalScroll,
    MoveMouse,
    PressKeys,
    Scroll,
    Terminate,
    TypeText,
    Wait,
)
from trajmill.schemas.geometry import Point, Size
from trajmill.schemas.text import parse_python

_LONGEST: Final = 20_000
"""Most characters of an action; longer ones are not parsed."""


def read_code(code: str, screen: Size) -> tuple[Action, ...]:
    """The actions of a piece of code, in order; empty if a statement is no known call.

    Args:
        code: calls of `pyautogui` and `computer`; positions up to 1 are shares of the screen, larger ones pixels.
        screen: width and height of the screenshot.
    """
    try:
        found = [_call(statement, _Reader(screen)) for statement in parse_python(code[:_LONGEST]).body]
    except (SyntaxError, ValueError, TypeError, KeyError, MemoryError, RecursionError, OverflowError):
        return ()
    return tuple(_joined(found))


def _call(statement: ast.stmt, reader: _Reader) -> Action:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        raise ValueError("no call")
    call = statement.value
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
        raise ValueError("no call of a module")
    arguments = [ast.literal_eval(argument) for argument in call.args]
    named = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg is not None}
    return _READERS[call.func.attr](reader, *arguments, **named)


def _joined(actions: Sequence[Action]) -> list[Action]:
    """The same, with a move and the drag after it as one action."""
    joined: list[Action] = []
    for action in actions:
        if isinstance(action, DragTo) and joined and isinstance(joined[-1], MoveMouse):
            start = joined.pop()
            assert isinstance(start, MoveMouse)
            joined.append(Drag(x=start.x, y=start.y, x2=action.x, y2=action.y))
        else:
            joined.append(action)
    return joined


@dataclass(frozen=True)
class _Reader:
    """Makes an action of the arguments of a call."""

    screen: Size

    def at(self, x: float, y: float) -> Point:
        shares = 0 <= x <= 1 and 0 <= y <= 1
        wide, high = self.screen if shares else (1, 1)
        return Point(
            min(max(round(x * wide), 0), self.screen.width - 1), min(max(round(y * high), 0), self.screen.height - 1)
        )

    def click(self, x: float, y: float, clicks: int = 1, button: str = "left", **_: Any) -> Action:
        return Click.model_validate({**self.at(x, y)._asdict(), "count": clicks, "button": button})

    def move(self, x: float, y: float, **_: Any) -> Action:
        return MoveMouse(**self.at(x, y)._asdict())

    def drag(self, x: float, y: float, **_: Any) -> Action:
        return DragTo(**self.at(x, y)._asdict())

    def scroll(self, clicks: float, x: float | None = None, y: float | None = None, **_: Any) -> Action:
        return Scroll(clicks=_notches(clicks), **self._place(x, y))

    def scroll_sideways(self, clicks: float, x: float | None = None, y: float | None = None, **_: Any) -> Action:
        return HorizontalScroll(clicks=_notches(clicks), **self._place(x, y))

    def write(self, message: str, **_: Any) -> Action:
        return TypeText(text=message)

    def press(self, keys: str | list[str], presses: int = 1, **_: Any) -> Action:
        pressed = [keys] if isinstance(keys, str) else keys
        return PressKeys(keys=tuple(pressed * max(1, min(int(presses), 100))))

    def hotkey(self, *keys: str | list[str], **_: Any) -> Action:
        pressed = keys[0] if len(keys) == 1 and isinstance(keys[0], list) else keys
        return PressKeys.model_validate({"keys": tuple(pressed)})

    def wait(self, seconds: float = 1.0, **_: Any) -> Action:
        return Wait(seconds=float(seconds))

    def terminate(self, status: Literal["success", "failure"] = "success", **_: Any) -> Action:
        return Terminate(status=status)

    def answer(self, answer: str, **_: Any) -> Action:
        return Answer(text=answer)

    def _place(self, x: float | None, y: float | None) -> dict[str, int]:
        return {} if x is None or y is None else self.at(x, y)._asdict()


def _notches(clicks: float) -> int:
    return max(-1000, min(1000, round(clicks)))


def _clicks(count: int, button: str = "left") -> Callable[..., Action]:
    return lambda reader, x, y, **_: reader.click(x, y, clicks=count, button=button)


_READERS: Final[Mapping[str, Callable[..., Action]]] = {
    "click": _Reader.click,
    "leftClick": _clicks(1),
    "rightClick": _clicks(1, "right"),
    "middleClick": _clicks(1, "middle"),
    "doubleClick": _clicks(2),
    "tripleClick": _clicks(3),
    "moveTo": _Reader.move,
    "dragTo": _Reader.drag,
    "scroll": _Reader.scroll,
    "vscroll": _Reader.scroll,
    "hscroll": _Reader.scroll_sideways,
    "write": _Reader.write,
    "typewrite": _Reader.write,
    "press": _Reader.press,
    "hotkey": _Reader.hotkey,
    "wait": _Reader.wait,
    "sleep": _Reader.wait,
    "terminate": _Reader.terminate,
    "answer": _Reader.answer,
}
