"""Finds phrases in other texts by the runs of words that they share; case and punctuation are ignored."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from trajmill.schemas.errors import BadInputError

if TYPE_CHECKING:
    from datasketch import MinHash

RUN = 3
"""Words of a run."""
_WORD = re.compile(r"\w+")

Run = tuple[str, ...]
_ENOUGH_OWN = 0.5
_PERMUTATIONS = 128
_WHOLE_WORD = re.compile(r"\w+(?:[:.,'’-]\w+)*")
TOO_SIMILAR = 0.8
"""An instruction with this share of common words, or more, is a repetition of another."""
_LOOKED_AT = 0.5
"""Threshold of the index, at which it misses none in ten thousand that are `TOO_SIMILAR`."""


def same_answer(given: str, shown: str) -> bool:
    """Whether two answers say the same; case, spaces, a label before `: ` and a final full stop do not matter."""
    one, other = (" ".join(text.casefold().split()).rstrip(".").rpartition(": ")[2] for text in (given, shown))
    return one == other


class FoundPhrase(NamedTuple):
    phrase_id: str
    share: float
    """The part of the phrase's runs of words that the text has."""


class PhraseIndex:
    """Phrases by their runs of words, to compare a text with all of them at once.

    Args:
        phrases: texts by id; those of fewer than four words are left out, since they occur by chance.
        known: texts that may be repeated. Their runs of words prove nothing: a phrase is found only with half of the
            runs that are its own, and one without any is left out.
        enough: the least share of a phrase's runs that a text must have.
    """

    def __init__(self, phrases: Mapping[str, str], known: Iterable[str] = (), enough: float = 0.8) -> None:
        common = {run for text in known for run in runs_of(text)}
        self._enough = enough
        self._sizes: dict[str, int] = {}
        self._own_sizes: dict[str, int] = {}
        self._phrases: dict[Run, list[str]] = defaultdict(list)
        self._own: set[Run] = set()
        for phrase_id, text in phrases.items():
            runs = runs_of(text)
            own = runs - common
            if len(runs) > 1 and own:
                self._sizes[phrase_id], self._own_sizes[phrase_id] = len(runs), len(own)
                self._own |= own
                for run in runs:
                    self._phrases[run].append(phrase_id)

    def identity(self) -> object:
        """Return what decides what is found: the phrases by their runs of words, and which runs are their own."""
        phrases = sorted([list(run), sorted(ids), run in self._own] for run, ids in self._phrases.items())
        return [self._enough, phrases]

    def found_in(self, line: str) -> Iterator[FoundPhrase]:
        """Yield the phrases that one line of a text has most of."""
        shared: Counter[str] = Counter()
        own: Counter[str] = Counter()
        for run in runs_of(line):
            for phrase_id in self._phrases.get(run, ()):
                shared[phrase_id] += 1
                own[phrase_id] += run in self._own
        for phrase_id, count in shared.items():
            share = count / self._sizes[phrase_id]
            if share >= self._enough and own[phrase_id] >= _ENOUGH_OWN * self._own_sizes[phrase_id]:
                yield FoundPhrase(phrase_id, share)


class SimilarSets:
    """Sets by key, to find similar ones among many: MinHash chooses what is compared exactly."""

    def __init__(self, looked_at: float) -> None:
        """Look at sets whose Jaccard similarity is about `looked_at` or more; ImportError if datasketch is missing."""
        from datasketch import MinHash, MinHashLSH

        self._sets: dict[str, frozenset[str]] = {}
        self._index = MinHashLSH(threshold=looked_at, num_perm=_PERMUTATIONS)
        self._empty = MinHash(num_perm=_PERMUTATIONS)

    def add(self, key: str, parts: frozenset[str]) -> None:
        self._sets[key] = parts
        self._index.insert(key, self._sketch(parts))

    def similar_to(self, parts: frozenset[str]) -> dict[str, float]:
        """Return by key the exact Jaccard similarity of the sets that are looked at."""
        found = self._index.query(self._sketch(parts))
        return {key: len(parts & self._sets[key]) / max(len(parts | self._sets[key]), 1) for key in found}

    def _sketch(self, parts: frozenset[str]) -> MinHash:
        sketch = self._empty.copy()
        sketch.update_batch([part.encode() for part in parts])
        return sketch


class SimilarText(NamedTuple):
    text: str
    same_words: bool
    """Whether the words are the same; case, spacing and punctuation are ignored."""


class KnownTexts:
    """Instructions, to find the one that another repeats."""

    def __init__(self, instructions: Iterable[str] = (), shared: KnownTexts | None = None) -> None:
        """Index instructions; `shared` is only read. Raises BadInputError if datasketch is not installed."""
        try:
            self._similar = SimilarSets(_LOOKED_AT)
        except ImportError:
            text = "proposed tasks need datasketch, which finds repetitions: pip install 'trajmill[curate]'"
            raise BadInputError(text) from None
        self._shared = shared
        self._by_words: dict[tuple[str, ...], str] = {}
        for instruction in instructions:
            self.add(instruction)

    def add(self, instruction: str) -> None:
        words = tuple(_WHOLE_WORD.findall(instruction.casefold()))
        if words not in self._by_words:
            self._by_words[words] = instruction
            self._similar.add(instruction, frozenset(words))

    def find(self, instruction: str) -> SimilarText | None:
        """Return the task with the same words, else the most similar task from `TOO_SIMILAR` on, else None."""
        words = tuple(_WHOLE_WORD.findall(instruction.casefold()))
        if words in self._by_words:
            return SimilarText(self._by_words[words], True)
        shares = self._similar.similar_to(frozenset(words)).items()
        share, text = max(((share, text) for text, share in shares), default=(0.0, ""))
        other = self._shared.find(instruction) if self._shared else None
        if share < TOO_SIMILAR or (other and other.same_words):
            return other
        return SimilarText(text, False)


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def runs_of(text: str) -> frozenset[Run]:
    """Return all runs of three neighbouring words; a shorter text is one run."""
    words = words_of(text)
    if not words:
        return frozenset()
    return frozenset(tuple(words[at : at + RUN]) for at in range(max(1, len(words) - RUN + 1)))
