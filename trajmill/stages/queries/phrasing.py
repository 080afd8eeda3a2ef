"""Analyses the text of a query: its slots, its held-out templates and clauses, and the sentence without slot values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from trajmill.schemas.tables.query import Query
from trajmill.stages.queries.base import HELDOUT_MARK


def lost_slots(text: str, said: Mapping[str, str]) -> tuple[str, ...]:
    """The slots whose words, given by slot, are missing in a text."""
    return tuple(slot for slot, words in said.items() if not words_pattern(words).search(text))


def words_pattern(words: str) -> re.Pattern[str]:
    """A pattern that finds whole words in any case."""
    return re.compile(rf"(?<!\w){re.escape(words)}(?!\w)", re.IGNORECASE)


def phrasing_parts(query: Query) -> frozenset[str]:
    """The template and the clauses of a query's phrasing id, each with its task."""
    template, *clauses = query.phrasing.split(" ")
    return frozenset([template, *(f"{query.task}:{clause}" for clause in clauses)]) - {""}


def heldout_parts(query: Query) -> frozenset[str]:
    """Those of `phrasing_parts` that are marked as held out."""
    return frozenset(part for part in phrasing_parts(query) if part.rpartition("/")[2].startswith(HELDOUT_MARK))


def skeleton(query: Query) -> str:
    """The instruction with the words of its slots replaced by `_`; queries of one phrasing have the same."""
    return blank(query.instruction, (slot.said for slot in query.slots))


def blank(text: str, said: Iterable[str]) -> str:
    """`text` in small letters, with each of the `said` words replaced by `_`, the longest first."""
    text = text.casefold()
    for words in sorted(set(said) - {""}, key=lambda words: (-len(words), words)):
        text = words_pattern(words.casefold()).sub("_", text)
    return text
