"""Puts the names of slots in the place of their values, so that a text holds for all queries of a task."""

from __future__ import annotations

import re
from collections.abc import Iterable

from trajmill.schemas.tables.query import Slot

_NAMED = re.compile(r"\{([^{}\s]+)\}")


def with_names(text: str, slots: Iterable[Slot]) -> str:
    """A text in which each value, as the screen shows it or as the user says it, is `{name}`.

    Whole words are replaced, whatever their case, and longer values first. Of two slots with one value, the first
    counts.
    """
    names: dict[str, str] = {}
    for slot in slots:
        for value in (slot.value, slot.said):
            if value.strip():
                names.setdefault(value.strip().casefold(), slot.name)
    if not names:
        return text
    longest_first = sorted(names, key=lambda value: (-len(value), value))
    values = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)
    return values.sub(lambda found: "{" + names[found[0].casefold()] + "}", text)


def names_in(text: str) -> frozenset[str]:
    """All names in braces."""
    return frozenset(_NAMED.findall(text))
