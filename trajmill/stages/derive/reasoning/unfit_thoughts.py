"""Finds thoughts that are none: placeholders, and those that could only be had from a hint."""

from __future__ import annotations

import re
from typing import Final

_PLACEHOLDERS: Final = frozenset(
    ("not told", "none", "null", "nothing", "empty", "n a", "na", "thought", "the thought", "unknown", "tbd")
)
"""What stands in the place of a thought: a word of the prompt, or one for nothing."""
_NUMBER = r"\d+(?:\.\d+)?\s*(?:%|px\b|pixels?\b)?"
_POSITIONS: Final = re.compile(
    rf"[(\[]\s*(?:x\s*[=:]\s*)?{_NUMBER}\s*[,;]\s*(?:y\s*[=:]\s*)?{_NUMBER}\s*[)\]]"
    rf"|\bx\s*[=:]\s*{_NUMBER}"
    r"|\d+(?:\.\d+)?\s*%\s*(?:,|;|/|and|by)\s*\d+(?:\.\d+)?\s*%"
    r"|\d+(?:\.\d+)?\s*(?:%|px|pixels?)\s*(?:of the way\s*)?(?:across|down|from the (?:left|top|right|bottom))"
    rf"|\b(?:coordinates?|positions?|points?|pixels?)\s*:?\s*{_NUMBER}\s*,\s*{_NUMBER}",
    re.IGNORECASE,
)
"""A point of the screen in numbers, as hints and models write it."""
_ABOUT_HINTS: Final = re.compile(
    r"\bhint(?:s|ed)?\b|\bthe (?:right|correct|given|stored) action (?:is|was|says|tells)\b|\bI (?:was|am) told\b",
    re.IGNORECASE,
)


def says_something(thought: str) -> bool:
    """Whether a thought is more than blanks, punctuation or a placeholder.

    A model that presses the same place whatever it is told passes the check of the action by chance, and such a thought
    with it.
    """
    words = " ".join(re.findall(r"\w+", thought.replace("_", " ").casefold()))
    return words != "" and words not in _PLACEHOLDERS


def told_by_hint(thought: str, known: str) -> str | None:
    """Why a thought can only be had from a hint; None if it need not be.

    Who thinks from a picture names an element, and no numbers of its place: the action would follow from those alone,
    whatever the rest of the thought says.

    Args:
        thought: of a model that may have been told the right action.
        known: the task, the texts of the screen and of the action; what stands there may be repeated.

    Returns:
        `tells_position` or `tells_hint`.
    """
    if _says_more_than(thought, _POSITIONS, known):
        return "tells_position"
    return "tells_hint" if _says_more_than(thought, _ABOUT_HINTS, known) else None


def _says_more_than(thought: str, what: re.Pattern[str], known: str) -> bool:
    return any(found[0].casefold() not in known.casefold() for found in what.finditer(thought))
