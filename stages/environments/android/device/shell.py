"""Lines for the shell of a device: the one place where words are quoted.

adb hands one string to the device's `sh`. Model text, names of apps, paths and values of settings become part of it
only through `quote`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NewType

Line = NewType("Line", str)
"""A line that is safe to hand to a device: made by `line`, or a constant of this package."""

Words = tuple[str, ...]
"""A program and its arguments."""


def quote(word: str) -> str:
    """The word as any POSIX shell reads it back unchanged, whatever it holds.

    Raises:
        ValueError: it holds a NUL or a lone surrogate, which no argument can.
    """
    if "\0" in word:
        raise ValueError("an argument cannot hold a NUL")
    word.encode()
    return shlex.quote(word)


def line(commands: Sequence[Words]) -> Line:
    """One line that runs commands in order, whether or not they succeed."""
    return Line("; ".join(" ".join(map(quote, words)) for words in commands))
