"""Finds guidance in texts, to keep it out of training data: the policy must learn to act without it (paper 6.4)."""

from __future__ import annotations

import re
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
"""Share of a line's words in a sentence that mentions guidance, or of the sentence's words in the line."""
_LEAST_CITED = 2
_REPEATED_RUNS = 0.9
"""Share of a line's runs of words in a sentence that mentions no guidance."""
_LEAST_WORDS = 4
"""A line with fewer words beside quoted names, such as `Tap "Continue to pay".`, is an agent's own phrase."""
_QUOTED = re.compile(r'"[^"]*"')


class _Line(NamedTuple):
    normalised: str
    """With its number."""
    words: frozenset[str]
    runs: frozenset[Run]
    """Empty for a line that an agent may write without having read it."""


def without_guidance(text: str, guidance: str) -> str:
    """Return a prompt without its guidance, in all forms in which dialects and agents write it."""
    hints = guidance.strip()
    if not hints:
        return text
    block = re.compile(rf"\n+(?:## )?Guidance:?\n{re.escape(hints)}")
    return block.sub("", text).replace(f" Guidance: {' '.join(hints.split())}", "")


def quotes_guidance(text: str, guidance: str) -> bool:
    """Return whether a text contains a line of the guidance, repeats one without its number, or cites one freely.

    A line with its number is found anywhere; case and spacing are ignored. Without its number it is found if a sentence
    has nearly all its runs of three words, and it is not so short that an agent would write it by itself. A sentence
    that mentions guidance ("as the guidance says, tap Checkout") cites a line if they share half of the words of one.
    """
    lines = _lines_of(guidance)
    if not lines:
        return False
    plain_text = _normalised(text)
    return any(line.normalised in plain_text for line in lines) or any(
        _repeats(sentence, lines) for sentence in _SENTENCE.split(text.casefold())
    )


def _repeats(sentence: str, lines: tuple[_Line, ...]) -> bool:
    said = _CITES.sub("", sentence)
    if said == sentence:
        runs = runs_of(sentence)
        return any(line.runs and len(line.runs & runs) >= _REPEATED_RUNS * len(line.runs) for line in lines)
    words = frozenset(words_of(said))
    shared = ((len(words & line.words), min(len(words), len(line.words))) for line in lines)
    return any(both >= _LEAST_CITED and both >= _CITED_WORDS * fewer for both, fewer in shared)


@lru_cache(maxsize=512)
def _lines_of(guidance: str) -> tuple[_Line, ...]:
    # All texts of a trajectory are compared with the same guidance.
    lines = []
    for line in filter(str.strip, guidance.splitlines()):
        said = _NUMBER.sub("", line)
        is_telling = len(words_of(_QUOTED.sub("", said))) >= _LEAST_WORDS
        runs = runs_of(said) if is_telling else frozenset[Run]()
        lines.append(_Line(_normalised(line), frozenset(words_of(said)), runs))
    return tuple(lines)


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split())
