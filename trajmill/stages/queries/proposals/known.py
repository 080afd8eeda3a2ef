"""What a text that a model proposes must not be: a repetition of a known task, too long, an excuse, a placeholder."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from trajmill.schemas.errors import BadInputError

if TYPE_CHECKING:
    from datasketch import MinHash

BATCH = 10
LONGEST_TASK = 400
TOO_SIMILAR = 0.8
"""A task with this share of common words, or more, is a repetition of another."""
_LOOKED_AT = 0.5
"""Threshold of the index, at which it misses none in ten thousand that are `TOO_SIMILAR`; its hits are computed
exactly."""
_PERMUTATIONS: Final = 128
_FEWEST_WORDS = 2
_EXCUSE = re.compile(
    r"(?:(?:i['’]?m|i am|we are)\s+)?(?:sorry|unable)\b|(?:i|we)\s+(?:cannot|can['’]?t|can not)\b|as an ai\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"\[[^\]]*\]|<[^>]*>|\{[^}]*\}|_{3,}|\bx{3,}\b", re.IGNORECASE)
_WORD = re.compile(r"\w+(?:[:.,'’-]\w+)*")


async def ask_until(wanted: int, spare: int, ask: Callable[[int, int], Awaitable[int]]) -> int:
    """Ask for batches (count, number of the request) until `wanted` are kept; return how many are missing."""
    missing = wanted
    for number in range(-(-wanted // BATCH) + spare):
        if missing <= 0:
            break
        missing -= await ask(min(BATCH, missing), number)
    return missing


def why_no_task(proposed: str, text: str) -> str:
    """Return why a text (as proposed, and tidied) cannot be a task; empty if it can."""
    if len(proposed) > LONGEST_TASK:
        return f"it has {len(proposed)} characters; at most {LONGEST_TASK} are allowed"
    if len(text.split()) < _FEWEST_WORDS:
        return "it is no sentence"
    if _EXCUSE.match(text):
        return "it is an excuse and no task"
    placeholder = _PLACEHOLDER.search(text)
    return f'"{placeholder[0]}" is a placeholder' if placeholder else ""


class SimilarTask(NamedTuple):
    text: str
    same_words: bool
    """Whether the words are the same; case, spacing and punctuation are ignored."""


class KnownTasks:
    def __init__(self, instructions: Iterable[str] = (), shared: KnownTasks | None = None) -> None:
        """Index instructions; `shared` is only read. Raises BadInputError if datasketch is not installed."""
        try:
            from datasketch import MinHash, MinHashLSH
        except ImportError:
            text = "proposed tasks need datasketch, which finds repetitions: pip install 'trajmill[curate]'"
            raise BadInputError(text) from None
        self._shared = shared
        self._by_words: dict[tuple[str, ...], str] = {}
        self._index = MinHashLSH(threshold=_LOOKED_AT, num_perm=_PERMUTATIONS)
        self._empty = MinHash(num_perm=_PERMUTATIONS)
        for instruction in instructions:
            self.add(instruction)

    def add(self, instruction: str) -> None:
        words = _words(instruction)
        if words not in self._by_words:
            self._by_words[words] = instruction
            self._index.insert(words, self._sketch(words))

    def find(self, instruction: str) -> SimilarTask | None:
        """Return the task with the same words, else the most similar task from `TOO_SIMILAR` on, else None."""
        words = _words(instruction)
        own: SimilarTask | None = None
        if words in self._by_words:
            own = SimilarTask(self._by_words[words], True)
        else:
            # The Jaccard similarity of two sets of words.
            alike = (
                (len({*words} & {*other}) / max(len({*words} | {*other}), 1), self._by_words[other])
                for other in self._index.query(self._sketch(words))
            )
            share, text = max(alike, default=(0.0, ""))
            own = SimilarTask(text, False) if share >= TOO_SIMILAR else None
        other = self._shared.find(instruction) if self._shared else None
        return next((found for found in (own, other) if found and found.same_words), own or other)

    def _sketch(self, words: tuple[str, ...]) -> MinHash:
        sketch = self._empty.copy()
        sketch.update_batch([word.encode() for word in sorted(set(words))])
        return sketch


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))
