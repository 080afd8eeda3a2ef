"""Describes an action and its effect with a model, and keeps the description that most votes find consistent.

Paper 2.2.2: a model describes the action from the screen before, with the target marked; the same model then compares
both screens and says whether what changed fits the action; several rounds vote.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Annotated, NamedTuple

from pydantic import StringConstraints

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.observation import ScreenHandle, ScreenReader
from trajmill.schemas.record import Record
from trajmill.schemas.tables.step import Step
from trajmill.stages.critics.model.action_words import action_in_words, untrusted
from trajmill.stages.critics.model.marking import marked_picture, picture
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, on_lines
from trajmill.stages.models.structured import ask_several

_LONGEST = 400
_Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST)]


class ActionAnswer(Record):
    """What the action is, in a sentence."""

    description: _Sentence


class EffectAnswer(Record):
    """What changed, and whether it fits the description of the action."""

    effect: _Sentence
    consistent: bool


class VotedDescription(NamedTuple):
    """A description of an action and its effect, with the votes for it."""

    text: str
    agreed: int
    votes: int

    @property
    def share(self) -> float:
        """Share of the votes that found it consistent; 0 without any vote."""
        return self.agreed / self.votes if self.votes else 0.0


class EffectDescriber:
    """Asks one model for descriptions, and for votes on them."""

    def __init__(self, model: ChatModel, describe: Prompt, check: Prompt, candidates: int, votes: int) -> None:
        self._model = model
        self._describe = PromptedModel(model, describe)
        self._check = PromptedModel(model, check)
        self._candidates = candidates
        self._votes = votes

    @property
    def version(self) -> str:
        """Both prompts and the model."""
        return f"{self._describe.prompt.version}+{self._check.version}"

    async def best(self, episode: Episode, step: Step, screens: ScreenReader) -> VotedDescription:
        """The description with the most votes.

        Raises:
            ModelFailure: no valid description, or no valid vote on any of them.
        """
        before = _drawn_once(marked_picture(step, screens))
        described = await self._descriptions(episode, step, before, screens)
        after = picture(step.screen_after, screens)
        found = [await self._voted(episode, step, (before, after), one) for one in dict.fromkeys(described)]
        voted = [one for one in found if one.votes]
        if not voted:
            raise ModelFailure("describer: no valid vote on a description")
        return max(voted, key=lambda one: one.share)

    async def _descriptions(
        self, episode: Episode, step: Step, before: ScreenHandle, screens: ScreenReader
    ) -> list[str]:
        elements = screens.elements(step.screen_before)
        fields = {"action": action_in_words(step.action, elements, before.size)}
        parts = ("The screen before the action:", before)
        request = self._describe.request("describer", fields, parts, Sampling(temperature=1.0), on_lines)
        asked = replace(
            request, trajectory_id=episode.trajectory.trajectory_id, step_index=step.index, n=self._candidates
        )
        answers = await ask_several(self._model, asked, ActionAnswer)
        return [one.description for one in answers if isinstance(one, ActionAnswer)]

    async def _voted(
        self, episode: Episode, step: Step, shown: tuple[ScreenHandle, ScreenHandle], description: str
    ) -> VotedDescription:
        fields = {"description": untrusted(description)}
        before, after = shown
        parts = ("The screen before the action:", before, "The screen after the action:", after)
        request = self._check.request("describer", fields, parts, Sampling(temperature=1.0, top_p=0.6), on_lines)
        asked = replace(request, trajectory_id=episode.trajectory.trajectory_id, step_index=step.index, n=self._votes)
        answers = await ask_several(self._model, asked, EffectAnswer)
        votes = [one for one in answers if isinstance(one, EffectAnswer)]
        agreeing = [one for one in votes if one.consistent]
        text = f"{description} {agreeing[0].effect}" if agreeing else description
        return VotedDescription(" ".join(text.split()), len(agreeing), len(votes))


def _drawn_once(screen: ScreenHandle) -> ScreenHandle:
    """The same screen, whose mark is drawn and encoded for the first request alone."""
    return replace(screen, encode=cache(screen.encode))
