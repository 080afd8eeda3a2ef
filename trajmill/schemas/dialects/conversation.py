"""Builds the messages of one step in the layout of a family, for both rollouts and releases.

Families show different parts of the past: GUI-Owl 1.5 the last four screens with its replies to them, UI-TARS all its
replies, the others only the current screen. A step that is not shown is a line in the task's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.tables.query import Platform

Screen = TypeVar("Screen")
"""The type of screens: an agent's observation, or the id of a stored screen."""


class PastStep(NamedTuple, Generic[Screen]):
    screen: Screen
    """The screen before the step."""
    reply: str
    """The agent's reply in the family's dialect."""
    conclusion: str
    """The step's line in the task's text if the reply is not shown."""


class SpokenMessage(NamedTuple, Generic[Screen]):
    """One message; its screen comes after the text."""

    role: str
    """`system`, `user` or `assistant`."""
    text: str
    screen: Screen | None = None


class Conversation(NamedTuple, Generic[Screen]):
    messages: tuple[SpokenMessage[Screen], ...]
    task: str
    """The task's text in the messages, without guidance."""


def conversation(
    family: Family,
    platform: Platform,
    frame: CoordinateFrame,
    instruction: str,
    guidance: str | None,
    past: Sequence[PastStep[Screen]],
    screen: Screen,
) -> Conversation[Screen]:
    """The messages of a step; `frame` is that of the current screen, and `past` begins with the oldest step."""
    dialect = family.dialect(platform)
    shown_from = max(0, len(past) - family.past_screens)
    spoken_from = 0 if family.keeps_replies else shown_from
    not_shown = [step.conclusion for step in past[:spoken_from]]
    task = dialect.task_text(instruction, guidance, not_shown)
    turns: list[SpokenMessage[Screen]] = []
    for at, step in enumerate(past[spoken_from:], spoken_from):
        if at >= shown_from:
            turns.append(SpokenMessage("user", "", step.screen))
        turns.append(SpokenMessage("assistant", step.reply))
    turns.append(SpokenMessage("user", "", screen))
    # The task comes before the first screen, in the same message if no message is before it.
    if turns[0].role == "user":
        turns[0] = turns[0]._replace(text=task)
    else:
        turns.insert(0, SpokenMessage("user", task))
    messages = (SpokenMessage[Screen]("system", dialect.system_prompt(frame)), *turns)
    return Conversation(messages, dialect.task_text(instruction, None, not_shown))
