"""Writes the steps as numbered lines, each naming what to press or type (paper 6.4); needs no model."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.episode import Episode
from trajmill.stages.critics.trees.caption import ElementAction
from trajmill.stages.critics.trees.screen_state import control_kind
from trajmill.stages.guidance.base import StepDescription

_LONGEST = 80
"""Most characters of an element's name in a line."""


class LineWriter:
    """Writes one line per step that names its target as the screen shows it; needs no model.

    It leaves out scrolling, going back, and opening and closing the keyboard, because an agent sees whether the next
    target is visible.
    """

    version = "line-writer-1"

    async def synthesise(self, episode: Episode, steps: Sequence[StepDescription]) -> str:
        """Numbered lines, e.g. `2. Tap "Large" in Size.`; empty if no step has a target."""
        lines = [line for description in steps if (line := instruction_for(description.step.action))]
        return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))


def instruction_for(action: ElementAction) -> str:
    """The instruction for one action, as a sentence; empty for actions that need no hint."""
    element = action.element
    match action.kind:
        case "click" | "long_press" if element is not None and (element.text or element.value):
            verb = "Open" if action.opens else "Hold" if action.kind == "long_press" else "Tap"
            group = f" in {_plain(element.value)}" if control_kind(element) in ("choice", "stepper") else ""
            return f'{verb} "{_plain(element.text or element.value)}"{group}.'
        case "type":
            into = f" into {_plain(element.text)}" if element is not None and element.text else ""
            return f'Type "{_plain(action.words)}"{into}.'
        case "open":
            return f'Open "{_plain(action.words)}".'
        case "key" if action.words == "enter":
            return 'Press "Enter".'
        case "answer":
            return f'Answer "{_plain(action.words)}".'
        case _:
            return ""


def _plain(text: str) -> str:
    """The text on one line, without quotes, shortened."""
    line = " ".join(text.split()).replace('"', "'")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
