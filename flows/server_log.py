"""What a server said last, in one line."""

from __future__ import annotations

import re
from pathlib import Path

_LOOK_BACK_BYTES = 262_144
_LONGEST = 300
_ERROR = re.compile(r"\b[\w.]*(?:Error|Exception|error): +\S.*")


def last_words(log: Path, start: int = 0) -> str:
    """The first error that a program wrote after byte `start` of its log, and its last line, in one printable line.

    The last line alone rarely tells: servers end with "see root cause above".
    """
    lines = [line for line in map(_printable, _tail(log, start).splitlines()) if line]
    if not lines:
        return "it wrote nothing"
    last = lines[-1][-_LONGEST:]
    errors = [found[0][:_LONGEST] for found in map(_ERROR.search, lines) if found]
    if not errors or errors[0] in last:
        return last
    return f"{errors[0]} ... {last}"


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(start, size - _LOOK_BACK_BYTES))
        return file.read().decode(errors="replace")


def _printable(line: str) -> str:
    return "".join(character for character in line.strip() if character.isprintable())
