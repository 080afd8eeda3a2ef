"""Finds whether a proposed task has the same or nearly the same words as another task, by MinHash (datasketch)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from trajmill.schemas.errors import BadInputError

if TYPE_CHECKING:
    from datasketch import MinHash

TOO_SIMILAR = 0.8
"""From this share of common words on, a task is a repetition of another."""
_LOOKED_AT = 0.5
"""The index is asked for tasks from this share on, of which it misses none in ten thousand that are `TOO_SIMILAR`; what
it gives is computed exactly."""
_PERMUTATIONS: Final = 128
_WORD = re.compile(r"\w+(?:[:.,'’-]\w+)*")


class SimilarTask(NamedTuple):
    """A task with the same or nearly the same words."""

    text: str
    same_words: bool
    """Whether the words are the same; case, spacing and punctuation are ignored."""


class KnownTasks:
    """The existing instructions; more may be added."""

    def __init__(self, instructions: Iterable[str] = (), beside: KnownTasks | None = None) -> None:
        """Keep the first of equal instructions.

        Args:
            instructions: the first ones.
            beside: further instructions, which are shared with others; nothing is added to them.

        Raises:
            BadInputError: the package datasketch is not installed.
        """
        try:
            from datasketch import MinHash, MinHashLSH
        except ImportError:
            text = "proposed tasks need datasketch, which finds repetitions: pip install 'trajmill[curate]'"
            raise BadInputError(text) from None
        self._beside = beside
        self._by_words: dict[tuple[str, ...], str] = {}
        self._index = MinHashLSH(threshold=_LOOKED_AT, num_perm=_PERMUTATIONS)
        self._empty = MinHash(num_perm=_PERMUTATIONS)
        for instruction in instructions:
            self.add(instruction)

    def add(self, instruction: str) -> None:
        """Add an instruction."""
        words = _words(instruction)
        if words not in self._by_words:
            self._by_words[words] = instruction
            self._index.insert(words, self._sketch(words))

    def find(self, instruction: str) -> SimilarTask | None:
        """The task with the same words, else the most similar task from `TOO_SIMILAR` on, else None."""
        words = _words(instruction)
        own = self._same(words) or self._most_alike(words)
        beside = self._beside.find(instruction) if self._beside else None
        return next((found for found in (own, beside) if found and found.same_words), own or beside)

    def _same(self, words: tuple[str, ...]) -> SimilarTask | None:
        return SimilarTask(self._by_words[words], True) if words in self._by_words else None

    def _most_alike(self, words: tuple[str, ...]) -> SimilarTask | None:
        found = ((_shared(words, other), self._by_words[other]) for other in self._index.query(self._sketch(words)))
        share, text = max(found, default=(0.0, ""))
        return SimilarTask(text, False) if share >= TOO_SIMILAR else None

    def _sketch(self, words: tuple[str, ...]) -> MinHash:
        sketch = self._empty.copy()
        sketch.update_batch([word.encode() for word in sorted(set(words))])
        return sketch


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))


def _shared(mine: tuple[str, ...], other: tuple[str, ...]) -> float:
    """The Jaccard similarity of two sets of words."""
    return len({*mine} & {*other}) / max(len({*mine} | {*other}), 1)
