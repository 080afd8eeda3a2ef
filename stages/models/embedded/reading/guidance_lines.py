"""Guidance in the prompt: what each of its lines names, and which of them comes next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from trajmill.stages.models.embedded.reading.candidates import CandidateAction
from trajmill.stages.models.embedded.reading.conclusions import Conclusion, plain
from trajmill.stages.models.embedded.reading.words import tokens

_LINE = re.compile(r'(?:\d+[.)]\s*)?(?P<verb>\w+)[^"]*(?:"(?P<target>[^"]*)")?(?P<rest>.*)')
_LOOKAHEAD = 3
"""Lines that a step may be ahead of: what a line asks for may stand already."""


class GuidanceLine(NamedTuple):
    """One line of guidance, for example `2. Tap "Large" in Size.`."""

    verb: str
    target: str
    """What it quotes; empty for a line that quotes nothing."""
    field: frozenset[str]
    """Words after the quoted target: the label it belongs to."""
    words: str
    """The target, or the whole line where nothing is quoted."""


@lru_cache(maxsize=8192)
def read_guidance_line(line: str) -> GuidanceLine:
    """A line of guidance, whatever its form."""
    match = _LINE.match(line.strip())
    if match is None:
        return GuidanceLine("", "", frozenset(), line)
    target = plain(match["target"] or "")
    field = frozenset(token.normal for token in tokens(match["rest"]))
    return GuidanceLine(match["verb"].casefold(), target, field, target or line)


def remaining_lines(hints: Sequence[GuidanceLine], conclusions: Sequence[Conclusion]) -> Sequence[GuidanceLine]:
    """The lines that are not done yet."""
    following = 0
    for conclusion in conclusions:
        for ahead, hint in enumerate(hints[following : following + _LOOKAHEAD], start=1):
            if _fulfils(conclusion, hint):
                following += ahead
                break
    return hints[following:]


def names(hint: GuidanceLine, candidate: CandidateAction) -> bool:
    """Whether a line asks for a candidate: its text, of its group where the line says one."""
    if not hint.target or (candidate.verb == "type") != (hint.verb == "type"):
        return False
    return plain(candidate.text) == hint.target and _fits(hint, candidate.field)


def asks_to_fill(hint: GuidanceLine, candidate: CandidateAction) -> bool:
    """Whether a line asks to type into the input that pressing the candidate would focus."""
    is_input = candidate.role in ("text_field", "search_field") and "focused" not in candidate.states
    return hint.verb == "type" and is_input and _fits(hint, candidate.text)


def _fulfils(conclusion: Conclusion, hint: GuidanceLine) -> bool:
    if (conclusion.verb == "Typed") != (hint.verb == "type"):
        return False
    if hint.target:
        return conclusion.target == hint.target and _fits(hint, conclusion.field)
    done = {token.normal for token in tokens(conclusion.target)}
    return bool(done) and done <= {token.normal for token in tokens(hint.words)}


def _fits(hint: GuidanceLine, label: str) -> bool:
    words = {token.normal for token in tokens(label)}
    return not hint.field or not words or bool(words & hint.field)
