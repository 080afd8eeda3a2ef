"""Finds phrases in other texts by the runs of words that they share; case and punctuation are ignored."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

RUN = 3
"""Words of a run."""
_WORD = re.compile(r"\w+")

Run = tuple[str, ...]
_ENOUGH_OWN = 0.5


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


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, in order."""
    return _WORD.findall(text.casefold())


def runs_of(text: str) -> frozenset[Run]:
    """Return all runs of three neighbouring words; a shorter text is one run."""
    words = words_of(text)
    if not words:
        return frozenset()
    return frozenset(tuple(words[at : at + RUN]) for at in range(max(1, len(words) - RUN + 1)))
