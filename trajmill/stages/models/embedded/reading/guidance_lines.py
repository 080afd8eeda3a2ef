"""Reads guidance in the prompt: what each line names, and which line comes next."""

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
"""Most lines that a step may skip, because the screen may already be as a line asks."""


class GuidanceLine(NamedTuple):
    """One line of guidance, for example `2. Tap "Large" in Size.`."""

    verb: str
    target: str
    """The quoted text; empty for a line without quotes."""
    field: frozenset[str]
    """Words after the quoted target: the label that it belongs to."""
    words: str
    """The target; the whole line if it has no quotes."""


@lru_cache(maxsize=8192)
def read_guidance_line(line: str) -> GuidanceLine:
    """Read a line of guidance in any form."""
    match = _LINE.match(line.strip())
    if match is None:
        return GuidanceLine("", "", frozenset(), line)
    target = plain(match["target"] or "")
    field = frozenset(token.normal for token in tokens(match["rest"]))
    return GuidanceLine(match["verb"].casefold(), target, field, target or line)


def remaining_lines(lines: Sequence[GuidanceLine], conclusions: Sequence[Conclusion]) -> Sequence[GuidanceLine]:
    """The lines that are not done yet."""
    following = 0
    for conclusion in conclusions:
        for ahead, line in enumerate(lines[following : following + _LOOKAHEAD], start=1):
            if _fulfils(conclusion, line):
                following += ahead
                break
    return lines[following:]


def names(line: GuidanceLine, candidate: CandidateAction) -> bool:
    """Whether a line asks for a candidate: the texts are equal, and so are the groups if the line names one."""
    if _confirms(line):
        return candidate.verb == "enter"
    if not line.target or (candidate.verb == "type") != (line.verb == "type"):
        return False
    return plain(candidate.text) == line.target and _fits(line, candidate.field)


def asks_to_fill(line: GuidanceLine, candidate: CandidateAction) -> bool:
    """Whether a line asks to type into the input that pressing the candidate would focus."""
    is_input = candidate.role in ("text_field", "search_field") and "focused" not in candidate.states
    return line.verb == "type" and is_input and _fits(line, candidate.text)


def _confirms(line: GuidanceLine) -> bool:
    return (line.verb, line.target) == ("press", "Enter")


def _fulfils(conclusion: Conclusion, line: GuidanceLine) -> bool:
    if _confirms(line):
        return conclusion.verb == "Confirmed"
    if (conclusion.verb == "Typed") != (line.verb == "type"):
        return False
    if line.target:
        return conclusion.target == line.target and _fits(line, conclusion.field)
    done = {token.normal for token in tokens(conclusion.target)}
    return bool(done) and done <= {token.normal for token in tokens(line.words)}


def _fits(line: GuidanceLine, label: str) -> bool:
    words = {token.normal for token in tokens(label)}
    return not line.field or not words or bool(words & line.field)
