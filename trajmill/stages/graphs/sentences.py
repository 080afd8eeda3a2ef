"""Sentences for what elements do, and labels that say it."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_PLAIN = re.compile(r"(?:Leads to `[^`]*`(?: or `[^`]*`)*|Leads out of the app(?:, to [^ ]+)?|Changes the page)\.")
"""Older graphs have such sentences, which say no more than their transitions."""
PLAIN_SENDING = frozenset(
    {"ok", "submit", "go", "apply", "done", "confirm", "send", "continue", "next", "finish", "save"}
)
"""What buttons say that send a form, whatever it is for."""


def written(does: str) -> str:
    """A sentence that a person or a model wrote; empty for a plain one."""
    return "" if _PLAIN.fullmatch(does) else does


def starts_with_verb(label: str) -> bool:
    """Whether a label begins with a word for something to do, e.g. `Sort by price`."""
    first = re.split(r"[^a-z]", label.strip().lower(), maxsplit=1)[0]
    return first in _verbs()


@cache
def _verbs() -> frozenset[str]:
    return frozenset(files(__package__).joinpath("verbs.txt").read_text(encoding="utf-8").split())
