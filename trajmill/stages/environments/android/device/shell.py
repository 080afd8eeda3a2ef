"""Lines for the shell of a device; only this module quotes words.

adb passes one string to the device's `sh`. Text of a model, names of apps, paths and values of settings become part of
it only through `quote`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NewType

ShellLine = NewType("ShellLine", str)
"""A line that is safe to run: made by `shell_line`, or a constant of this package."""

Command = tuple[str, ...]
"""A program and its arguments."""


def quote(word: str) -> str:
    """Quote a word so that any POSIX shell reads it unchanged.

    Raises:
        ValueError: the word holds a NUL or a lone surrogate, which no argument can hold.
    """
    if "\0" in word:
        raise ValueError("an argument cannot hold a NUL")
    word.encode()
    return shlex.quote(word)


def shell_line(commands: Sequence[Command]) -> ShellLine:
    """One line that runs commands in order, whether or not they succeed."""
    return ShellLine("; ".join(" ".join(map(quote, command)) for command in commands))
