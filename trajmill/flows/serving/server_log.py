"""Reads a server's log: why it ended, in one line, and how long it has been silent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_LOOK_BACK_BYTES = 262_144
_LONGEST = 400
_LINE_PREFIX = re.compile(r"^\(\w+ pid=\d+\) ?(?:(?:ERROR|CRITICAL) \S+ \S+ \[[^\]]*\] ?)?")
"""The start of vLLM's lines: the process and, in log lines, level, time and place."""
_ERROR = re.compile(r"[\w.]+(?:Error|Exception): .+|[\w.-]+: error: .+")
"""The last line of a traceback, or an error of argparse."""
_CONTINUED = re.compile(r" {1,3}(?!File )\S.*")


class LogSilence:
    """How long a log has not grown."""

    def __init__(self, log: Path, now: float) -> None:
        """Begin to look at a log, at a time in seconds."""
        self._log, self._size, self._since = log, log.stat().st_size, now

    def seconds(self, now: float) -> float:
        """Seconds since it was last seen to have grown, or since the beginning."""
        size = self._log.stat().st_size
        if size != self._size:
            self._size, self._since = size, now
        return now - self._since


def error_in_log(log: Path, start: int = 0) -> str:
    """The first error after byte `start` of a log, or else its last line; one printable line.

    It is the first, because later ones only say that another process failed ("see root cause above").
    """
    lines = [line for line in map(_without_prefix, _tail(log, start).splitlines()) if line.strip()]
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


def _without_prefix(line: str) -> str:
    return "".join(character for character in _LINE_PREFIX.sub("", line.rstrip()) if character.isprintable())
