"""Guidance in the prompt: what each of its lines names, and which of them comes next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from trajmill.stages.models.embedded.candidates import Candidate
from trajmill.stages.models.embedded.deeds import Deed, plain
from trajmill.stages.models.embedded.words import tokens

_LINE = re.compile(r'(?:\d+[.)]\s*)?(?P<verb>\w+)[^"]*(?:"(?P<target>[^"]*)")?(?P<rest>.*)')
_LOOKAHEAD = 3
"""Lines that a step may be ahead of: what a line asks for may stand already."""


class Hint(NamedTuple):
    """One line of guidance, for example `2. Tap "Large" in Size.`."""

    verb: str
    target: str
    """What it quotes; empty for a line that quotes nothing."""
    field: frozenset[str]
    """Words after the quoted target: the label it belongs to."""
    words: str
    """The target, or the whole line where nothing is quoted."""


@lru_cache(maxsize=8192)
def read_hint(line: str) -> Hint:
    """A line of guidance, whatever its form."""
    match = _LINE.match(line.strip())
    if match is None:
        return Hint("", "", frozenset(), line)
    target = plain(match["target"] or "")
    field = frozenset(token.normal for token in tokens(match["rest"]))
    return Hint(match["verb"].casefold(), target, field, target or line)


def remaining_hints(hints: Sequence[Hint], deeds: Sequence[Deed]) -> Sequence[Hint]:
    """The lines that are not done yet."""
    following = 0
    for deed in deeds:
        for ahead, hint in enumerate(hints[following : following + _LOOKAHEAD], start=1):
            if _fulfils(deed, hint):
                following += ahead
                break
    return hints[following:]


def names(hint: Hint, candidate: Candidate) -> bool:
    """Whether a line asks for a candidate: its text, of its group where the line says one."""
    if not hint.target or (candidate.verb == "type") != (hint.verb == "type"):
        return False
    return plain(candidate.text) == hint.target and _fits(hint, candidate.field)


def names_input(hint: Hint, candidate: Candidate) -> bool:
    """Whether a line asks to type into the input that pressing the candidate would focus."""
    is_input = candidate.role in ("text_field", "search_field") and "focused" not in candidate.states
    return hint.verb == "type" and is_input and _fits(hint, candidate.text)


def _fulfils(deed: Deed, hint: Hint) -> bool:
    if (deed.verb == "Typed") != (hint.verb == "type"):
        return False
    if hint.target:
        return deed.target == hint.target and _fits(hint, deed.field)
    done = {token.normal for token in tokens(deed.target)}
    return bool(done) and done <= {token.normal for token in tokens(hint.words)}


def _fits(hint: Hint, label: str) -> bool:
    words = {token.normal for token in tokens(label)}
    return not hint.field or not words or bool(words & hint.field)
