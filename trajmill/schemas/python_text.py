"""Parses Python text beside other threads."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import Final

_TRIES: Final = 100
"""One of five fails where three threads do nothing else."""


def parse_python(text: str) -> ast.Module:
    """The statements of a text, as `ast.parse` gives them.

    Python before 3.11.8 and 3.12.2 counts the depth of all threads' trees together, so that a tree that one thread
    builds while another one does may fail with SystemError (issue 106905 of CPython); it is built again.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: as `ast.parse` does.
    """
    for _ in range(_TRIES):
        with suppress(SystemError):
            return ast.parse(text)
    return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """The one expression that a text is.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: as `ast.parse` does, or the text is no expression.
    """
    match parse_python(text).body:
        case [ast.Expr(value=value)]:
            return value
        case _:
            raise SyntaxError("no expression")
