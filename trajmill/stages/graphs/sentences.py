"""Sentences for what elements do, and labels that say it."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

PLAIN_SENDING = frozenset(
    {"ok", "submit", "go", "apply", "done", "confirm", "send", "continue", "next", "finish", "save"}
)
"""What buttons say that send a form, whatever it is for."""

_TURNING = frozenset({"next", "previous", "first", "last"})


def turns_page(label: str) -> bool:
    """Whether a label is one of a link to another page of results."""
    return label.isdecimal() or label.casefold() in _TURNING


def starts_with_verb(label: str) -> bool:
    """Whether a label begins with a word for something to do, e.g. `Sort by price`."""
    first = re.split(r"[^a-z]", label.strip().lower(), maxsplit=1)[0]
    return first in _verbs()


@cache
def _verbs() -> frozenset[str]:
    return frozenset(files(__package__).joinpath("verbs.txt").read_text(encoding="utf-8").split())
