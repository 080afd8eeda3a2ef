"""Writes what the roles of an agent said at a step, for `trajmill show` and the report."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.step import Step

SHOWN: Final = (
    *("outcome", "feedback", "notes", "completed", "plan", "knowledge"),  # Mobile-Agent-v3; CODA has a plan, too
    *("instruction", "state"),  # CES
    *("device", "atomic_tasks", "answers"),  # LightManus, which has an instruction, too
)
"""The role outputs that are shown, in order; others are kept for the agent alone."""


class RoleLine(NamedTuple):
    """One output of the roles at a step."""

    name: str
    text: str
    """On one line: the items of a list are separated by semicolons."""


def role_lines(step: Step) -> tuple[RoleLine, ...]:
    """The outputs of other roles at a step, without empty ones."""
    outputs = json.loads(step.role_outputs)
    return tuple(RoleLine(name, "; ".join(outputs[name].splitlines())) for name in SHOWN if outputs.get(name))


def call_lines(calls: Iterable[ModelCall]) -> Iterable[RoleLine]:
    """What each role was asked and answered: texts of the messages, a screen as its id."""
    for call in calls:
        yield RoleLine(f"{call.role} is asked", " | ".join(_parts(call.messages)))
        yield RoleLine(f"{call.role} says", f"{call.response} ({call.made_by}, {call.output_tokens} tokens)")


def _parts(messages: str) -> Iterable[str]:
    for message in json.loads(messages):
        # The system message is the same at every step.
        if message["role"] != "system":
            yield from (
                part if isinstance(part, str) else f"[screen {part['screen'][:8]}]" for part in message["content"]
            )
