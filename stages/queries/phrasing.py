"""Which words a query is written with: a template of its task and, per optional slot, a clause.

The id of a phrasing names both, e.g. `bites.order/h0 size/h0 place/1`: template 0 of the held-out ones, the first
held-out clause for the size, the second trained clause for the place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from schemas.query import Query

HELDOUT_MARK = "h"


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


class Clause(NamedTuple):
    """How one optional slot is said."""

    slot: str
    variant: Variant


class Phrasing(NamedTuple):
    """Everything that decides the words of an instruction."""

    task: str
    template: Variant
    clauses: tuple[Clause, ...]
    """In the order in which they are said."""
    seed: int
    """Decides between the alternatives inside the templates."""

    @property
    def id(self) -> str:
        """As it stands on the query."""
        parts = [f"{self.task}/{self.template.id}"]
        parts += sorted(f"{clause.slot}/{clause.variant.id}" for clause in self.clauses)
        return " ".join(parts)


def phrasing_parts(query: Query) -> frozenset[str]:
    """The template and the clauses of a query's phrasing id, each with its task."""
    template, *clauses = query.phrasing.split(" ")
    return frozenset([template, *(f"{query.task}:{clause}" for clause in clauses)]) - {""}


def heldout_parts(query: Query) -> frozenset[str]:
    """Those of `phrasing_parts` that are marked as held out."""
    return frozenset(p for p in phrasing_parts(query) if p.rpartition("/")[2].startswith(HELDOUT_MARK))


def skeleton(query: Query) -> str:
    """The instruction with the words of its slots blanked: what two queries of one phrasing have in common."""
    return blank(query.instruction, (slot.said for slot in query.slots))


def blank(text: str, said: Iterable[str]) -> str:
    """`text` in small letters, with each of the `said` words replaced by `_`, the longest first."""
    text = text.casefold()
    for words in sorted({words.casefold() for words in said if words}, key=lambda words: (-len(words), words)):
        text = text.replace(words, "_")
    return text
