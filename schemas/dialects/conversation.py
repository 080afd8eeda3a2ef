"""The messages of one step as a family wants them: the one place that rollouts and releases build them in.

Families differ in how much of the past they show: GUI-Owl 1.5 the last four screens with its replies to them, UI-TARS
all its replies, the others the current screen alone. What is not shown stands as a line in the task's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.tables.query import Platform

Screen = TypeVar("Screen")
"""Whatever stands for a screen: what an agent observes, or the id of a stored one."""


class PastStep(NamedTuple, Generic[Screen]):
    """An earlier step of the same episode."""

    screen: Screen
    """What the agent saw."""
    reply: str
    """What it wrote, in the family's dialect."""
    conclusion: str
    """The step's line in the task's text when the reply is not shown."""


class SpokenMessage(NamedTuple, Generic[Screen]):
    """One message; a screen stands after the text."""

    role: str
    """system, user or assistant."""
    text: str
    screen: Screen | None = None


class Conversation(NamedTuple, Generic[Screen]):
    """What a model is asked at one step."""

    messages: tuple[SpokenMessage[Screen], ...]
    task: str
    """The task's text within them, without guidance."""


def conversation(
    family: Family,
    platform: Platform,
    frame: CoordinateFrame,
    instruction: str,
    guidance: str | None,
    past: Sequence[PastStep[Screen]],
    screen: Screen,
) -> Conversation[Screen]:
    """The messages of a step.

    Args:
        family: of the model that is asked.
        platform: decides the dialect.
        frame: of the current screen.
        instruction: of the task.
        guidance: guidance for the task, None without any.
        past: the steps before it, oldest first.
        screen: the current one.
    """
    dialect = family.dialect(platform)
    shown_from = max(0, len(past) - family.past_screens)
    spoken_from = 0 if family.keeps_replies else shown_from
    told = [step.conclusion for step in past[:spoken_from]]
    task = dialect.task_text(instruction, guidance, told)
    turns: list[SpokenMessage[Screen]] = []
    for at, step in enumerate(past[spoken_from:], spoken_from):
        if at >= shown_from:
            turns.append(SpokenMessage("user", "", step.screen))
        turns.append(SpokenMessage("assistant", step.reply))
    turns.append(SpokenMessage("user", "", screen))
    # The task stands before the first screen, in the same message where that is the first thing to be said.
    begun = [turns[0]._replace(text=task), *turns[1:]] if turns[0].role == "user" else [_user(task), *turns]
    messages = (SpokenMessage[Screen]("system", dialect.system_prompt(frame)), *begun)
    return Conversation(messages, dialect.task_text(instruction, None, told))


def _user(text: str) -> SpokenMessage[Screen]:
    return SpokenMessage("user", text)
