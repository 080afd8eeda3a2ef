"""Parses and writes one call of UI-TARS: a name, and arguments that are texts in quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.arguments import LONGEST_SECONDS, ArgumentsError
from trajmill.schemas.geometry import Point

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
    """Parse a text that is one call.

    Raises:
        ArgumentsError: the text is no call, or continues after the call.
    """
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
