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
LONGEST_TEXT = 4000
"""Most characters that are kept of another text."""
NONE = "none"
"""What an empty section says."""

_HEADING = re.compile(r"^[ \t]*#{2,4}[ \t]*([A-Za-z][A-Za-z _-]{0,40}?)[ \t]*(?:#{2,4}|:)?[ \t]*$", re.MULTILINE)
_ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:\d{1,3}[.)]\s+|[-*•]\s+)?")


def read_sections(text: str) -> Mapping[str, str]:
    """The sections of a text by their headings in lower case; of two with one heading the last counts."""
    _, *parts = _HEADING.split(text)
    return {name.strip().casefold(): body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def read_answer(text: str) -> str:
    """The text between the last `<answer>` tags, else what follows the thinking, on one line."""
    found = _ANSWER.findall(text)
    return one_line(found[-1] if found else text.rpartition("</think>")[2])


def one_line(text: str, longest: int = LONGEST_TEXT) -> str:
    """A text on one line, cut to `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def numbered(items: Iterable[str]) -> str:
    """The items as a numbered list, one a line; `none` without any."""
    return "\n".join(f"{number}. {one_line(item, LONGEST_ITEM)}" for number, item in enumerate(items, start=1)) or NONE


def read_items(text: str) -> tuple[str, ...]:
    """The items of a list, one a line, without numbers and bullets; none of the text `none`."""
    lines = (one_line(_BULLET.sub("", line, count=1), LONGEST_ITEM) for line in text.splitlines())
    items = [line for line in lines if line and line.casefold().rstrip(".") != NONE]
    return tuple(items[:MOST_ITEMS])
