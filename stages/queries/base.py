"""The words of a query: what every writer of instructions returns, and how held-out words are marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

HELDOUT_MARK = "h"
"""Stands before the number of a held-out template or clause in a phrasing id."""


class Variant(NamedTuple):
    """One of several ways to say something."""

    text: str
    """The template as its author wrote it."""
    number: int
    heldout: bool
    """Training never sees it."""

    @property
    def id(self) -> str:
        """Its number, marked when it is held out."""
        return f"{HELDOUT_MARK if self.heldout else ''}{self.number}"


class Written(NamedTuple):
    """One query in words."""

    raw: str
    """Step 3: an explicit navigation instruction, e.g. `Open the Bites app, choose Pizza, ...`."""
    text: str
    """Step 4: what a person would say."""
    phrasing: str
    """Identifies the manner of the words; after the last `/` of each part `HELDOUT_MARK` begins what is held out."""
    said: Mapping[str, str]
    """By slot, the words that stand for it in `text`."""
