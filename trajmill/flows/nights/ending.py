"""How a flow that runs unattended ended: a state with a name, and one line that says why."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from prefect.client.schemas.objects import State
from prefect.states import Completed


class Ending(StrEnum):
    """The name of the final state; none of them is an error."""

    COLLECTED = "Collected"
    """Trajectories landed."""
    TRAINED = "Trained"
    """A new policy version was trained, measured, and promoted or not."""
    MAINTAINED = "Maintained"
    """The warehouse was made smaller and checked."""
    NOT_ENOUGH = "NotEnough"
    """Too few trajectories have been accepted since the last training."""
    NOT_TRAINED = "NotTrained"
    """The round gave no new policy, e.g. because no trajectory was accepted."""
    SKIPPED = "Skipped"
    """Another process worked on the run."""
    EMPTY_NIGHT = "EmptyNight"
    """No attempt finished."""
    BELOW_JUDGE_FLOOR = "BelowJudgeFloor"
    """The judge's precision is under its floor, so nothing was trained."""
    AWAITING_POLICY = "AwaitingPolicy"
    """Another program has to train the policy."""


NEEDS_PERSON = frozenset({Ending.EMPTY_NIGHT, Ending.BELOW_JUDGE_FLOOR, Ending.AWAITING_POLICY})
"""The endings that somebody is told about."""


class FlowEnd(NamedTuple):
    """How a flow ended."""

    ending: Ending
    line: str
    """What was done, or why nothing was done."""

    def state(self) -> State[Any]:
        """The final state of the flow run; its result is the line."""
        return Completed(name=self.ending.value, message=self.line, data=self.line)
