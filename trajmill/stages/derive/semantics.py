"""Derives action semantics: which action leads from one screen to the next, and what it changes (paper 2.2.2).

Trajectories that were judged incorrect are used too. A describer describes the action from the screen before, with the
target marked; the same model then compares both screens and votes, several times, on whether the change fits.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Annotated

from pydantic import StringConstraints

from trajmill.schemas.actions import Wait, action_from_json, ends_episode
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import NotExpressible, bare_call
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import ModelFailure, StageError
from trajmill.schemas.record import Record
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.critics.model.marking import action_in_words, marked_picture, picture, untrusted
from trajmill.stages.critics.replay import SeenStep, seen, stored_evidence
from trajmill.stages.derive.collected import TEMPLATE, Collected, KindDeriver, Lesson
from trajmill.stages.derive.conversation import about, dialogue, holds_placeholder
from trajmill.stages.derive.kind_spec import Tools
from trajmill.stages.derive.spec import ActionSemanticsSpec
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompts import PromptedModel, Sampling, ask_several, on_lines

ACTION, EFFECT = "action", "effect"
_PAIR = f"Before: {IMAGE_PLACEHOLDER}\nAfter: {IMAGE_PLACEHOLDER}"
_ASK_ACTION = (
    f"Which action led from the first screen to the second? Answer with its call alone, without a thought.\n{_PAIR}"
)
_EFFECT_SYSTEM = (
    "You are shown two screens of a phone, a desktop or a web page. Say in a sentence what happened between them."
)
_ASK_EFFECT = f"Describe the action that led from the first screen to the second, and what it changed.\n{_PAIR}"
_Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400)]


class ActionSemantics(KindDeriver[ActionSemanticsSpec]):
    def __init__(self, spec: ActionSemanticsSpec, tools: Tools) -> None:
        super().__init__(spec, tools)
        self._screens = seen(tools.screens)

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        touch = episode.query.platform is Platform.PHONE
        with stored_evidence(episode):
            captions = [self._screens.step(step, step.screen_after, touch=touch) for step in episode.steps]
        for step, caption in zip(episode.steps, captions, strict=True):
            unclear = self._unclear(step)
            if unclear is not None:
                collected.refuse(unclear, step)
                continue
            self._add_action(episode, step, collected)
            await self._add_effect(episode, step, caption, collected)

    def _unclear(self, step: Step) -> str | None:
        if step.action is None:
            return "unparsed"
        action = action_from_json(step.action)
        if ends_episode(action) or isinstance(action, Wait):
            return "no_visible_action"
        if step.screen_before == step.screen_after:
            return "no_change"
        size = self.tools.screens.size
        return "sizes_differ" if size(step.screen_before) != size(step.screen_after) else None

    def _add_action(self, episode: Episode, step: Step, collected: Collected) -> None:
        action, dialect = action_from_json(step.action or ""), ANY.dialect(episode.query.platform)
        frame = native_frame(self.tools.screens.size(step.screen_after))
        try:
            call = bare_call(action, dialect, frame)
        except NotExpressible as error:
            collected.refuse("not_expressible", step, variant=ACTION, detail=str(error))
            return
        messages = dialogue(dialect.system_prompt(frame), _ASK_ACTION, call)
        hit = step.target.bounds if step.target is not None else None
        screens = (step.screen_before, step.screen_after)
        made = Lesson(messages, screens, ACTION, episode.trajectory.model_version, action, hit)
        collected.add_or_refuse("placeholder_in_text" if holds_placeholder((call,)) else made, step, ACTION)

    async def _add_effect(self, episode: Episode, step: Step, caption: SeenStep, collected: Collected) -> None:
        text, author = caption.caption, TEMPLATE
        if self.tools.describer is not None:
            try:
                text, author, agreed, votes = await self._voted(self.tools.describer, episode, step)
            except StageError as error:
                collected.fail(error, step)
                return
            if agreed / votes < self.spec.agree_from:
                detail = f"{agreed} of {votes} votes: {text}"
                collected.refuse("not_consistent", step, variant=EFFECT, detail=detail)
                return
        messages = dialogue(_EFFECT_SYSTEM, _ASK_EFFECT, text)
        made = Lesson(messages, (step.screen_before, step.screen_after), EFFECT, author)
        collected.add_or_refuse("placeholder_in_text" if holds_placeholder((text,)) else made, step, EFFECT)

    async def _voted(self, model: ChatModel, episode: Episode, step: Step) -> tuple[str, str, int, int]:
        """Return the description with the most votes, its author, the votes for it and all votes on it.

        Raises ModelFailure without a valid description, or without a valid vote on any of them.
        """
        screens, prompts = self.tools.screens, self.tools.prompts
        describe, check = (PromptedModel(model, prompts[name]) for name in ("describe_action", "check_effect"))
        before = marked_picture(step, screens)
        # Draws and encodes the mark once for all requests.
        before = replace(before, encode=cache(before.encode))
        fields = {"action": action_in_words(step.action, screens.elements(step.screen_before), before.size)}
        parts = ("The screen before the action:", before)
        request = describe.request("describer", fields, parts, Sampling(temperature=1.0), on_lines)
        asked = replace(about(request, episode, step), n=self.spec.candidates)
        described = await ask_several(model, asked, ActionAnswer)
        voted = []
        for description in dict.fromkeys(one.description for one in described if isinstance(one, ActionAnswer)):
            fields = {"description": untrusted(description)}
            both = (*parts, "The screen after the action:", picture(step.screen_after, screens))
            request = check.request("describer", fields, both, Sampling(temperature=1.0, top_p=0.6), on_lines)
            asked = replace(about(request, episode, step), n=self.spec.votes)
            answers = await ask_several(model, asked, EffectAnswer)
            votes = [one for one in answers if isinstance(one, EffectAnswer)]
            agreeing = [one for one in votes if one.consistent]
            text = f"{description} {agreeing[0].effect}" if agreeing else description
            if votes:
                voted.append((" ".join(text.split()), len(agreeing), len(votes)))
        if not voted:
            raise ModelFailure("describer: no valid vote on a description")
        text, agreed, cast = max(voted, key=lambda one: one[1] / one[2])
        return text, f"{describe.prompt.version}+{check.version}", agreed, cast


class ActionAnswer(Record):
    """The action in a sentence."""

    description: _Sentence


class EffectAnswer(Record):
    """The change, and whether it fits the description of the action."""

    effect: _Sentence
    consistent: bool
