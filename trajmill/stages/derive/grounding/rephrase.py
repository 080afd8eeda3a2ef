"""Rephrases instructions into natural, task-oriented sentences with a language model (paper 2.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, StringConstraints

from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.record import Record
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.derive.grounding.instructions import ElementInstruction
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, on_lines

_LONGEST = 240
_Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST)]


class RephrasedAnswer(Record):
    """The answer of a writer: a sentence for each instruction, in their order."""

    instructions: Annotated[tuple[_Sentence, ...], Field(min_length=1)]


class Rephraser:
    """Asks a language model, once for all instructions of a screen."""

    def __init__(self, model: ChatModel, prompt: Prompt) -> None:
        self._prompted = PromptedModel(model, prompt)

    @property
    def version(self) -> str:
        """Prompt and model."""
        return self._prompted.version

    async def rephrased(self, made: Sequence[ElementInstruction], trajectory_id: str) -> list[str]:
        """A sentence for each instruction.

        Raises:
            ModelFailure: no valid answer, or not as many sentences as instructions.
        """
        listed = "\n".join(f"{number}. {untrusted(one.text)}" for number, one in enumerate(made, start=1))
        fields = {"instructions": listed, "count": str(len(made))}
        request = self._prompted.request("writer", fields, sampling=Sampling(max_tokens=4096), layout=on_lines)
        answer = await self._prompted.ask(replace(request, trajectory_id=trajectory_id), RephrasedAnswer)
        if len(answer.instructions) != len(made):
            raise ModelFailure(f"writer: {len(answer.instructions)} sentences for {len(made)} instructions")
        return [" ".join(sentence.split()) for sentence in answer.instructions]


def changes_meaning(made: ElementInstruction, sentence: str, others: Sequence[str]) -> bool:
    """Whether a sentence names another element of the screen that the instruction does not name."""
    said, asked = sentence.casefold(), made.text.casefold()
    named = any(len(other) > 2 and other.casefold() in said and other.casefold() not in asked for other in others)
    return named or IMAGE_PLACEHOLDER in sentence
