"""Finds guidance in texts, to keep it out of training data: the policy must learn to act without it (paper 6.4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from trajmill.stages.overlap import Run, runs_of, words_of

_NUMBER = re.compile(r"^\s*(?:\d{1,3}[.)]|[-*•])\s*")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_CITES = re.compile(
    r"\b(?:(?:as|the|my) )*(?:guidance|guidelines?|hints?|advice)\b(?: (?:says?|tells?|suggests?)\b)?"
    r"|\bas (?:i was )?(?:told|suggested|instructed|recommended|advised)\b"
    r"|\b(?:tip|note|step \d+) (?:says?|tells?|suggests?|recommends?)\b"
)
_CITED_WORDS = 0.5
"""The part of a line's words that a sentence must have if it speaks of guidance; or of its own that the line has."""
_LEAST_CITED = 2
"""Words that they must share."""
_REPEATED_RUNS = 0.9
"""The part of a line's runs of words that a sentence must have otherwise."""
_LEAST_WORDS = 4
"""A line with fewer words beside quoted names, such as `Tap "Continue to pay".`, is what an agent says by itself."""
_QUOTED = re.compile(r'"[^"]*"')


class _Line(NamedTuple):
    """One line of guidance."""

    normalised: str
    """With its number."""
    words: frozenset[str]
    runs: frozenset[Run]
    is_telling: bool
    """Whether an agent that repeats it must have read it."""


def without_guidance(text: str, guidance: str) -> str:
    """A prompt without its guidance, in the forms in which the dialects and the agents of several roles write it."""
    hints = guidance.strip()
    if not hints:
        return text
    block = re.compile(rf"\n+(?:## )?Guidance:?\n{re.escape(hints)}")
    return block.sub("", text).replace(f" Guidance: {' '.join(hints.split())}", "")


def quotes_guidance(text: str, guidance: str) -> bool:
    """Whether a text contains a line of the guidance, repeats one without its number, or cites one freely.

    A line with its number is found anywhere; case and spacing are ignored. Without its number it is found if a sentence
    has nearly all its runs of three words, and it is not so short that an agent would say it by itself. A sentence that
    speaks of guidance ("as the guidance says, tap Checkout") cites a line if it has half of its words, or the line has
    half of the sentence's. So a thought that only names the same button does not count.
    """
    lines = _lines_of(guidance)
    if not lines:
        return False
    plain_text = _normalised(text)
    if any(line.normalised in plain_text for line in lines):
        return True
    telling = [line for line in lines if line.is_telling]
    return any(_repeats(sentence, lines, telling) for sentence in _SENTENCE.split(text.casefold()))


def _repeats(sentence: str, lines: Sequence[_Line], telling: Sequence[_Line]) -> bool:
    said = _CITES.sub("", sentence)
    if said != sentence:
        words = frozenset(words_of(said))
        return any(_cites(words, line.words) for line in lines)
    runs = runs_of(sentence) if telling else frozenset()
    return any(len(line.runs & runs) >= _REPEATED_RUNS * len(line.runs) for line in telling)


def _cites(words: frozenset[str], line: frozenset[str]) -> bool:
    shared = len(words & line)
    return shared >= _LEAST_CITED and shared >= _CITED_WORDS * min(len(words), len(line))


@lru_cache(maxsize=512)
def _lines_of(guidance: str) -> tuple[_Line, ...]:
    # All texts of a trajectory are compared with the same guidance.
    return tuple(_line(line) for line in guidance.splitlines() if line.strip())


def _line(line: str) -> _Line:
    said = _NUMBER.sub("", line)
    is_telling = len(words_of(_QUOTED.sub("", said))) >= _LEAST_WORDS
    return _Line(_normalised(line), frozenset(words_of(said)), runs_of(said), is_telling)


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split())
