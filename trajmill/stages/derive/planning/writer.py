"""Writes one manual from several successes of a task with a language model (GUI-Owl 2.2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, StringConstraints

from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Record
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.critics.trees.replay import SeenScreens, replay
from trajmill.stages.derive.planning.manual import with_names
from trajmill.stages.derive.semantics.deriver import effect_in_words
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, on_lines

_LONGEST = 240
_MOST_STEPS = 30
_Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST)]


class ManualAnswer(Record):
    """The answer of a writer: the steps of the manual in order."""

    steps: Annotated[tuple[_Sentence, ...], Field(min_length=1, max_length=_MOST_STEPS)]


class ManualWriter:
    """Asks a language model once for each task."""

    def __init__(self, model: ChatModel, prompt: Prompt, screens: SeenScreens) -> None:
        self._prompted = PromptedModel(model, prompt)
        self._screens = screens

    @property
    def version(self) -> str:
        """Prompt and model."""
        return self._prompted.version

    async def steps(self, successes: Sequence[Episode]) -> list[str]:
        """The steps of the manual, from what each action of the successes changed.

        Raises:
            ModelFailure: no valid answer.
        """
        told = "\n\n".join(self._told(number, one) for number, one in enumerate(successes, start=1))
        return await written_steps(self._prompted, successes[0], {"successes": told})

    def _told(self, number: int, success: Episode) -> str:
        slots = success.query.slots
        effects = [with_names(effect_in_words(seen), slots) for seen in replay(success, self._screens)]
        listed = "\n".join(f"{place}. {untrusted(effect, _LONGEST)}" for place, effect in enumerate(effects, start=1))
        task = untrusted(with_names(success.query.instruction, slots))
        return f"Success {number}, of the task {task}:\n{listed}"


class PlanWriter:
    """Asks a language model for the plan of a task that has no success (GUI-Owl 2.2.2, distilled plans)."""

    def __init__(self, model: ChatModel, prompt: Prompt) -> None:
        self._prompted = PromptedModel(model, prompt)

    @property
    def version(self) -> str:
        """Prompt and model."""
        return self._prompted.version

    async def steps(self, attempt: Episode) -> list[str]:
        """The steps of the plan, from the task of an attempt alone; what the attempt did is not told.

        Raises:
            ModelFailure: no valid answer.
        """
        return await written_steps(self._prompted, attempt, {"apps": untrusted(", ".join(attempt.query.apps))})


async def written_steps(prompted: PromptedModel, first: Episode, fields: Mapping[str, str]) -> list[str]:
    """Ask for the steps of the task of an episode, with names in the place of its values.

    Raises:
        ModelFailure: no valid answer.
    """
    task = untrusted(with_names(first.query.instruction, first.query.slots))
    request = prompted.request("writer", {"task": task, **fields}, sampling=Sampling(max_tokens=2048), layout=on_lines)
    asked = replace(request, trajectory_id=first.trajectory.trajectory_id)
    answer = await prompted.ask(asked, ManualAnswer)
    return [" ".join(step.split()) for step in answer.steps]
