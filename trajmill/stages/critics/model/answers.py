"""The records that critics' models are asked for; an answer that is not valid is asked for again."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import Field, StrictBool, StrictInt, StringConstraints, create_model, field_validator, model_validator

from trajmill.schemas.record import Record
from trajmill.schemas.tables.verdict import StepLabel

Said = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""A text that is not empty."""


class StepAnswer(Record):
    """The step critic's answer on one step (paper 6.3)."""

    analysis: Said
    summary: Said
    """The prompt asks for at most 30 words; a longer text is cut, because the label is still valid."""
    label: StepLabel


class TrajectoryAnswer(Record):
    """CODA's three signals on a trajectory (its 3.4), the reason first. Steps are numbered from 1."""

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
    """The description of a screen."""

    caption: Said


def trajectory_answer(steps: int) -> type[TrajectoryAnswer]:
    """The class of `TrajectoryAnswer` for a trajectory of this many steps; larger step numbers are invalid.

    The JSON schema has the bounds too, so that guided decoding keeps to them.
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
