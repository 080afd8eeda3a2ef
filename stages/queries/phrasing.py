"""What stands in the words of a query: slots, held-out templates and clauses, the sentence without its slot values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from trajmill.schemas.tables.query import Query
from trajmill.stages.queries.base import HELDOUT_MARK


def lost_slots(text: str, said: Mapping[str, str]) -> tuple[str, ...]:
    """The slots whose words, given by slot, are not in a text: what its writer has lost."""
    return tuple(slot for slot, words in said.items() if not words_pattern(words).search(text))


def words_pattern(words: str) -> re.Pattern[str]:
    """Finds words as they stand, in any case, where no longer word begins or ends with them."""
    return re.compile(rf"(?<!\w){re.escape(words)}(?!\w)", re.IGNORECASE)


def phrasing_parts(query: Query) -> frozenset[str]:
    """The template and the clauses of a query's phrasing id, each with its task."""
    template, *clauses = query.phrasing.split(" ")
    return frozenset([template, *(f"{query.task}:{clause}" for clause in clauses)]) - {""}


def heldout_parts(query: Query) -> frozenset[str]:
    """Those of `phrasing_parts` that are marked as held out."""
    return frozenset(part for part in phrasing_parts(query) if part.rpartition("/")[2].startswith(HELDOUT_MARK))


def skeleton(query: Query) -> str:
    """The instruction with the words of its slots blanked: what two queries of one phrasing have in common."""
    return blank(query.instruction, (slot.said for slot in query.slots))


def blank(text: str, said: Iterable[str]) -> str:
    """`text` in small letters, with each of the `said` words replaced by `_`, the longest first."""
    text = text.casefold()
    for words in sorted(set(said) - {""}, key=lambda words: (-len(words), words)):
        text = words_pattern(words.casefold()).sub("_", text)
    return text
