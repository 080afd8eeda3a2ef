"""Finds answers that an agent did not read from a screen (NaturalGAIA 4.2, enforcing grounded execution)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from trajmill.schemas.actions import Answer, action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import UIElement
from trajmill.stages.overlap import words_of

UNGROUNDED: Final = "ungrounded_answer"
_THOUSANDS: Final = re.compile(r"(?<=\d)[,'’](?=\d{3}(?!\d))")
_SAYS_NOTHING: Final = frozenset(
    words_of(
        "a an and are at be been by done for from has have i in is it its no not of on or success successfully task "
        "that the there this to was were with yes you your"
    )
)
_ENOUGH = 0.5
"""The part of an answer's words, beside numbers, that must have been on screens: agents answer in sentences."""


def is_ungrounded(episode: Episode, elements_of: Callable[[str], Sequence[UIElement]]) -> bool:
    """Whether an episode ends with an answer whose facts never were on a screen that the agent saw.

    Every number of the answer and half of its other words must have been on such a screen, or be in the instruction;
    something of it must have been on a screen. Words that say nothing do not count. Where no screen has an
    accessibility tree, nobody can tell.

    Args:
        episode: with its steps in order.
        elements_of: the accessibility tree of a screen by id, empty where there was none.
    """
    said = _answer(episode)
    facts = _claimed_words(said) if said is not None else []
    if not facts:
        return False
    seen: set[str] = set()
    for screen_id in dict.fromkeys(step.screen_before for step in episode.steps):
        seen.update(word for element in elements_of(screen_id) for word in _words(f"{element.text} {element.value}"))
    if not seen:
        return False
    known = seen.union(_words(episode.query.instruction))
    numbers = [word for word in facts if any(map(str.isdigit, word))]
    others = [word for word in facts if word not in numbers]
    read = all(word in known for word in numbers) and sum(word in known for word in others) >= _ENOUGH * len(others)
    return not (read and any(word in seen for word in facts))


def _answer(episode: Episode) -> str | None:
    last = episode.steps[-1].action if episode.steps else None
    action = None if last is None else action_from_json(last)
    return action.text if isinstance(action, Answer) else None


def _claimed_words(text: str) -> list[str]:
    return [word for word in _words(text) if word not in _SAYS_NOTHING]


def _words(text: str) -> list[str]:
    return words_of(_THOUSANDS.sub("", text))
