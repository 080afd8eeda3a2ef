"""Text of models and screens: made storable, put on one line, and parsed as Python beside other threads."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from typing import Final

_UNFIT = re.compile("[\x00\ud800-\udfff]")
_TRIES: Final = 100
"""One of five fails where three threads do nothing else."""


def storable(text: str) -> str:
    """The text with U+FFFD in place of characters that UTF-8 or a database cannot store: lone surrogates and NUL."""
    # Looking at each character takes a hundred times as long.
    return text if text.isascii() and "\0" not in text else _UNFIT.sub("�", text)


def printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def one_line(text: str, most: int | None = None) -> str:
    """The words of a text with single spaces; more than `most` characters end with an ellipsis."""
    line = " ".join(text.split())
    return line if most is None or len(line) <= most else line[: most - 1] + "…"


def parse_python(text: str) -> ast.Module:
    """The statements of a text, as `ast.parse` gives them.

    Python before 3.11.8 and 3.12.2 counts the depth of all threads' trees together, so that a tree that one thread
    builds while another one does may fail with SystemError (issue 106905 of CPython); it is built again. Raises
    SyntaxError, ValueError, MemoryError and RecursionError as `ast.parse` does.
    """
    for _ in range(_TRIES):
        with suppress(SystemError):
            return ast.parse(text)
    return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """The one expression that a text is. Raises SyntaxError if it is none, and what `parse_python` raises."""
    match parse_python(text).body:
        case [ast.Expr(value=value)]:
            return value
        case _:
            raise SyntaxError("no expression")
