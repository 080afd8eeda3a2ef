"""Writes the conclusions of the embedded policy's steps, and reads them back from the history."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

_CONCLUSION = re.compile(
    r'(?P<verb>\w+)(?: down| up)?(?: "(?P<target>[^"]*)")?(?: (?:for|into) "(?P<field>[^"]*)")?'
    r'(?: on "(?P<title>[^"]*)")?\.(?: Noted (?P<notes>"[^"]*"(?:, "[^"]*")*)\.)?'
)
_QUOTED = re.compile(r'"([^"]*)"')


class Conclusion(NamedTuple):
    """The fields of one conclusion."""

    verb: str
    """`Opened`, `Tapped`, `Typed`, `Scrolled`, ...; empty for a text in another form."""
    target: str
    """Label of the tapped element, or the typed text."""
    field: str
    """The label of the stepper, radio group or input that it belongs to."""
    title: str
    """Title of the screen before the action."""
    notes: tuple[str, ...]
    """Values seen on that screen that may be needed later."""


def write_conclusion(conclusion: Conclusion, *, how: str = "", into: bool = False) -> str:
    """Write a conclusion; `how` follows the verb, and `into` is for a target that was typed into an input."""
    parts = [conclusion.verb, how] if how else [conclusion.verb]
    if conclusion.target:
        parts.append(quoted(conclusion.target))
    if conclusion.field:
        parts.append(f"{'into' if into else 'for'} {quoted(conclusion.field)}")
    if conclusion.title:
        parts.append(f"on {quoted(conclusion.title)}")
    noted = f" Noted {', '.join(map(quoted, conclusion.notes))}." if conclusion.notes else ""
    return " ".join(parts) + "." + noted


def read_conclusion(text: str) -> Conclusion:
    """Read a conclusion that `write_conclusion` wrote; all fields are empty for another text."""
    match = _CONCLUSION.fullmatch(text)
    if match is None:
        return Conclusion("", "", "", "", ())
    notes = tuple(_QUOTED.findall(match["notes"])) if match["notes"] else ()
    return Conclusion(match["verb"], match["target"] or "", match["field"] or "", match["title"] or "", notes)


def noted_values(conclusions: Sequence[Conclusion]) -> list[str]:
    """All values noted so far without repetitions, latest first."""
    return list(dict.fromkeys(note for conclusion in reversed(conclusions) for note in conclusion.notes))


@lru_cache(maxsize=8192)
def plain(text: str) -> str:
    """A text of the screen or the user in the form of conclusions: one line, without quotes, shortened."""
    line = " ".join(text.split()).replace('"', "'")
    return line if len(line) <= 60 else line[:59] + "…"


def quoted(text: str) -> str:
    """The `plain` text in quotes."""
    return f'"{plain(text)}"'
