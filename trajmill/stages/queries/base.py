"""The text of a query: what every writer of instructions returns, and how held-out phrasings are marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

HELDOUT_MARK = "h"
"""In a phrasing id, the letter before the number of a held-out template or clause."""


class Variant(NamedTuple):
    """One of several templates for the same thing."""

    text: str
    """The template."""
    number: int
    heldout: bool
    """Whether training never sees it."""

    @property
    def id(self) -> str:
        """Its number, marked when it is held out."""
        return f"{HELDOUT_MARK if self.heldout else ''}{self.number}"


class Written(NamedTuple):
    """The texts of one query."""

    raw: str
    """Step 3: an explicit navigation instruction, e.g. `Open the Bites app, choose Pizza, ...`."""
    text: str
    """Step 4: the instruction as a person would say it."""
    phrasing: str
    """Identifies the phrasing, part by part; a part is held out if `HELDOUT_MARK` follows its last `/`."""
    said: Mapping[str, str]
    """By slot name, the words in `text` that express its value."""
