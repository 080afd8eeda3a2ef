"""Why a server ended, in one line, from what it wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_LOOK_BACK_BYTES = 262_144
_LONGEST = 400
_SPEAKER = re.compile(r"^\(\w+ pid=\d+\) ?(?:(?:ERROR|CRITICAL) \S+ \S+ \[[^\]]*\] ?)?")
"""How vLLM begins a line: the process, and in its log the level, the time and the place."""
_ERROR = re.compile(r"[\w.]+(?:Error|Exception): .+|[\w.-]+: error: .+")
"""The end of a traceback, or what argparse says."""
_CONTINUED = re.compile(r" {1,3}(?!File )\S.*")


def last_words(log: Path, start: int = 0) -> str:
    """The first error that a program told after byte `start` of its log, or else its last line; printable, one line.

    The first, since those that follow say only that another process failed ("see root cause above").
    """
    lines = [line for line in map(_said, _tail(log, start).splitlines()) if line.strip()]
    if not lines:
        return "it wrote nothing"
    return (_first_error(lines) or lines[-1].strip())[:_LONGEST]


def _first_error(lines: Sequence[str]) -> str | None:
    for number, line in enumerate(lines):
        if _ERROR.fullmatch(line):
            following = lines[number + 1] if number + 1 < len(lines) else ""
            return line + (following if _CONTINUED.fullmatch(following) else "")
    return None


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(start, size - _LOOK_BACK_BYTES))
        return file.read().decode(errors="replace")


def _said(line: str) -> str:
    return "".join(character for character in _SPEAKER.sub("", line.rstrip()) if character.isprintable())
