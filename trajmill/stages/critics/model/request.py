"""Asks a model for a critic: prompts, requests, and the records of its answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, cast

from pydantic import Field, StrictBool, StrictInt, StringConstraints, create_model, field_validator, model_validator

from trajmill.schemas.errors import JudgeFailure, ModelFailure
from trajmill.schemas.record import Record
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.models.base import ChatModel, ChatRequest, MessagePart
from trajmill.stages.models.prompts import FilledPrompt, Prompt, Sampling, load_prompt, on_lines, prompt_request
from trajmill.stages.models.structured import AnswerFailure, ask_several

A = TypeVar("A", bound=Record)
Said = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


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
    caption: Said


def trajectory_answer(steps: int) -> type[TrajectoryAnswer]:
    """Return the class of answers on this many steps, with the bounds in its JSON schema, for guided decoding."""
    number: Any = Annotated[StrictInt, Field(ge=1, le=steps)]
    numbers: Any = Annotated[tuple[number, ...], Field(max_length=steps)]
    made = create_model(
        "TrajectoryAnswer",
        __base__=TrajectoryAnswer,
        redundant_steps=(numbers, ...),
        first_error_step=(number | None, ...),
    )
    return cast(type[TrajectoryAnswer], made)


def critic_request(
    role: str,
    filled: FilledPrompt,
    parts: tuple[MessagePart, ...],
    sampling: Sampling,
    trajectory_id: str | None,
    step_index: int | None = None,
) -> ChatRequest:
    request = prompt_request(role, filled, parts, sampling, on_lines)
    return replace(request, trajectory_id=trajectory_id, step_index=step_index)


async def ask_critic(model: ChatModel, request: ChatRequest, answer: type[A], subject: str) -> A:
    """Ask a model for one answer. Raises JudgeFailure if none is valid, ModelFailure if there is none."""
    (found,) = await ask_critic_several(model, request, answer, subject)
    if isinstance(found, JudgeFailure | ModelFailure):
        raise found
    return found


async def ask_critic_several(
    model: ChatModel, request: ChatRequest, answer: type[A], subject: str
) -> list[A | JudgeFailure | ModelFailure]:
    """Ask for `n` samples in one request; each is an answer or a failure. Raises ModelFailure if there is none."""
    found = await ask_several(model, request, answer)
    return [JudgeFailure(f"{subject}: {one}") if isinstance(one, AnswerFailure) else one for one in found]


class CriticPrompts(NamedTuple):
    step: Prompt
    text: Prompt
    multimodal: Prompt
    describer: Prompt


def critic_prompts(
    step: Path | None = None, text: Path | None = None, multimodal: Path | None = None, describer: Path | None = None
) -> CriticPrompts:
    """Load the user's prompt files, or those of the package. Raises BadInputError for an unusable file."""
    names = {"critic_step-1": step, "critic_text-2": text, "critic_multimodal-2": multimodal}
    names["describer_screen-1"] = describer
    return CriticPrompts(*(load_prompt("trajmill.stages.critics.model", name, own) for name, own in names.items()))
