"""The user's part of an end-to-end prompt: instruction, guidance, progress (paper 2.1: history is conclusions only).

For example `The user query: order a Margherita`, then `Guidance:` with its lines, then
`Task progress (done on this device so far): Step 1: Opened "Bites".; Step 2: ...`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trajmill.schemas.text import one_line

_QUERY = "The user query: "
_GUIDANCE = "\nGuidance:\n"
_PROGRESS = "\nTask progress (done on this device so far): "
_NOTHING = "nothing yet"


class UserText(NamedTuple):
    instruction: str
    guidance: tuple[str, ...]
    conclusions: tuple[str, ...]
    """The conclusions of the steps so far, oldest first."""


def end_to_end_prompt(instruction: str, guidance: str | None, conclusions: Sequence[str]) -> str:
    """Write the task part of an end-to-end prompt; the instruction is put on one line."""
    hints = f"{_GUIDANCE}{guidance.strip()}" if guidance else ""
    done = "; ".join(f"Step {number}: {one_line(text)}" for number, text in enumerate(conclusions, start=1))
    return f"{_QUERY}{one_line(instruction)}{hints}{_PROGRESS}{done or _NOTHING}"


def read(text: str) -> UserText:
    """Parse a user text; text in another layout counts as instruction.

    An agent of several roles puts their texts before the task; they are left out.
    """
    if not text.startswith(_QUERY):
        text = text.partition(f"\n{_QUERY}")[2] or text
    head, found, progress = text.rpartition(_PROGRESS)
    if not found:
        head, progress = text, ""
    query, _, hints = head.partition(_GUIDANCE)
    lines = tuple(line.strip() for line in hints.splitlines() if line.strip())
    return UserText(query.removeprefix(_QUERY).strip(), lines, _steps(progress.strip()))


def _steps(progress: str) -> tuple[str, ...]:
    """Split at `Step 1: `, then `Step 2: ` and so on, so that a number within a conclusion starts no step."""
    steps: list[str] = []
    rest = progress.removeprefix("Step 1: ")
    if rest == progress:
        return ()
    while True:
        step, found, rest = rest.partition(f"; Step {len(steps) + 2}: ")
        steps.append(step)
        if not found:
            return tuple(steps)
