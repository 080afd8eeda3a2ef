"""Finds whether a proposed task has the same or nearly the same words as another task."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

TOO_SIMILAR = 0.8
"""From this share of common words on, a task is a repetition of another."""

_WORD = re.compile(r"\w+(?:[:.,'’-]\w+)*")


class SimilarTask(NamedTuple):
    """A task with the same or nearly the same words."""

    text: str
    same_words: bool
    """Whether the words are the same; case, spacing and punctuation are ignored."""


class KnownTasks:
    """The existing instructions; more may be added."""

    def __init__(self, instructions: Iterable[str] = ()) -> None:
        """Keep the first of equal instructions."""
        self._by_words: dict[tuple[str, ...], str] = {}
        self._sets: list[tuple[frozenset[str], str]] = []
        for instruction in instructions:
            self.add(instruction)

    def add(self, instruction: str) -> None:
        """Add an instruction."""
        words = _words(instruction)
        if words not in self._by_words:
            self._by_words[words] = instruction
            self._sets.append((frozenset(words), instruction))

    def find(self, instruction: str) -> SimilarTask | None:
        """The task with the same words, else the most similar task from `TOO_SIMILAR` on, else None."""
        words = _words(instruction)
        if words in self._by_words:
            return SimilarTask(self._by_words[words], True)
        mine = frozenset(words)
        share, text = max(((_shared(mine, other), text) for other, text in self._sets), default=(0.0, ""))
        return SimilarTask(text, False) if share >= TOO_SIMILAR else None


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))


def _shared(mine: frozenset[str], other: frozenset[str]) -> float:
    # A cheap test first: most pairs differ too much in length.
    small, large = sorted((len(mine), len(other)))
    if large == 0 or small < TOO_SIMILAR * large:
        return 0.0
    return len(mine & other) / len(mine | other)
