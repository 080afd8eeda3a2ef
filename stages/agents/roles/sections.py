"""Reads and writes the sections of role prompts and replies: a heading `### Plan ###`, then lines of text.

The published prompts of Mobile-Agent-v3 have this form. Text of models and screens is untrusted: it is put on one line,
so that it cannot begin a section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MOST_ITEMS = 40
"""Most items that are read of a list."""
LONGEST_ITEM = 400
"""Most characters that are kept of an item."""
NONE = "none"
"""What an empty section says."""

_HEADING = re.compile(r"^[ \t]*#{2,4}[ \t]*([A-Za-z][A-Za-z _-]{0,40}?)[ \t]*(?:#{2,4}|:)?[ \t]*$", re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:\d{1,3}[.)]\s+|[-*•]\s+)?")


def read_sections(text: str) -> Mapping[str, str]:
    """The sections of a text by their headings in lower case; of two with one heading the last counts."""
    _, *parts = _HEADING.split(text)
    return {name.strip().casefold(): body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def one_line(text: str) -> str:
    """A text on one line, cut to `LONGEST_ITEM` characters."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_ITEM else line[: LONGEST_ITEM - 1] + "…"


def numbered(items: Iterable[str]) -> str:
    """The items as a numbered list, one a line; `none` without any."""
    return "\n".join(f"{number}. {one_line(item)}" for number, item in enumerate(items, start=1)) or NONE


def read_items(text: str) -> tuple[str, ...]:
    """The items of a list, one a line, without numbers and bullets; none of the text `none`."""
    lines = (one_line(_BULLET.sub("", line, count=1)) for line in text.splitlines())
    items = [line for line in lines if line and line.casefold().rstrip(".") != NONE]
    return tuple(items[:MOST_ITEMS])
