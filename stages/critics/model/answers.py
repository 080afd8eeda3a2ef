"""What critics are asked to answer, as records: an answer that breaks a rule here is none, and is asked for again."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import Field, StrictBool, StrictInt, StringConstraints, create_model, field_validator, model_validator

from trajmill.schemas.record import Record
from trajmill.schemas.tables.verdict import StepLabel

Said = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Words; none at all are no answer."""


class StepAnswer(Record):
    """What the step critic says of one step (paper 6.3)."""

    analysis: Said
    summary: Said
    """Asked for in at most 30 words; what is longer is cut, as the label is no worse for it."""
    label: StepLabel


class TrajectoryAnswer(Record):
    """CODA's three signals on a trajectory (its 3.4), the reason first; steps by their number, from 1."""

    reason: Said
    correct: StrictBool
    redundant_steps: tuple[StrictInt, ...]
    first_error_step: StrictInt | None

    @field_validator("redundant_steps")
    @classmethod
    def _sorted_once(cls, steps: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(steps)))

    @model_validator(mode="after")
    def _consistent(self) -> TrajectoryAnswer:
        if self.correct and self.first_error_step is not None:
            raise ValueError("correct is true, yet there is a first_error_step; one of the two is wrong")
        return self


class CaptionAnswer(Record):
    """A screen in words."""

    caption: Said


def trajectory_answer(steps: int) -> type[TrajectoryAnswer]:
    """`TrajectoryAnswer` on a trajectory of so many steps: a number that none of them has is invalid.

    The bounds stand in the JSON schema too, so that a server with guided decoding cannot leave them.
    """
    number: Any = Annotated[StrictInt, Field(ge=1, le=steps)]
    numbers: Any = Annotated[tuple[number, ...], Field(max_length=steps)]
    made = create_model(
        "TrajectoryAnswer",
        __base__=TrajectoryAnswer,
        redundant_steps=(numbers, ...),
        first_error_step=(number | None, ...),
    )
    return cast(type[TrajectoryAnswer], made)
