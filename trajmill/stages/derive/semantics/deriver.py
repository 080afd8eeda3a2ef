"""Derives action semantics from the steps of a trajectory, judged correct or not: every action has an effect."""

from __future__ import annotations

from trajmill.schemas.actions import Action, Wait, action_from_json, ends_episode
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import NotExpressible, bare_call
from trajmill.schemas.dialects.gui_owl_v3 import dialect_for
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import StageError
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.step import Step
from trajmill.stages.critics.trees.caption import quoted
from trajmill.stages.critics.trees.replay import SeenStep, replay, seen
from trajmill.stages.derive.base import DerivedRows, unfit
from trajmill.stages.derive.collected import TEMPLATE, Collected, Lesson
from trajmill.stages.derive.conversation import PLACEHOLDERS
from trajmill.stages.derive.end_to_end import LEARNED_FROM
from trajmill.stages.derive.kind_spec import Tools
from trajmill.stages.derive.semantics.described import EffectDescriber
from trajmill.stages.derive.semantics.spec import ActionSemanticsSpec

ACTION, EFFECT = "action", "effect"
_PAIR = f"Before: {IMAGE_PLACEHOLDER}\nAfter: {IMAGE_PLACEHOLDER}"
_ASK_ACTION = (
    f"Which action led from the first screen to the second? Answer with its call alone, without a thought.\n{_PAIR}"
)
_EFFECT_SYSTEM = (
    "You are shown two screens of a phone, a desktop or a web page. Say in a sentence what happened between them."
)
_ASK_EFFECT = f"Describe the action that led from the first screen to the second, and what it changed.\n{_PAIR}"


class ActionSemantics:
    """Derives both tiers; asks a describer where one is configured."""

    def __init__(self, spec: ActionSemanticsSpec, tools: Tools) -> None:
        self._spec = spec
        self._tools = tools
        self._screens = seen(tools.screens)
        self._describer = None
        if tools.describer is not None:
            prompts = tools.prompts
            self._describer = EffectDescriber(
                tools.describer, prompts.describe_action, prompts.check_effect, spec.candidates, spec.votes
            )

    async def derive(self, episode: Episode, only: frozenset[int] | None = None) -> DerivedRows:
        """The examples of the steps of an episode whose action changed the screen."""
        collected = Collected(self._tools.maker, episode)
        reason = unfit(episode, LEARNED_FROM)
        if reason is not None:
            collected.refuse(reason)
            return collected.rows()
        try:
            captions = replay(episode, self._screens)
        except StageError as error:
            collected.fail(error)
            return collected.rows()
        for step, caption in zip(episode.steps, captions, strict=True):
            unclear = self._unclear(step)
            if unclear is not None:
                collected.refuse(unclear, step)
                continue
            if ACTION in self._spec.tiers:
                self._add_action(episode, step, collected)
            if EFFECT in self._spec.tiers:
                await self._add_effect(episode, step, caption, collected)
        return collected.rows()

    def _unclear(self, step: Step) -> str | None:
        """Why the screens of a step do not show its action."""
        if step.action is None:
            return "unparsed"
        action = action_from_json(step.action)
        if ends_episode(action) or isinstance(action, Wait):
            return "no_visible_action"
        if step.screen_before == step.screen_after:
            return "no_change"
        if self._tools.screens.size(step.screen_before) != self._tools.screens.size(step.screen_after):
            return "sizes_differ"
        return None

    def _add_action(self, episode: Episode, step: Step, collected: Collected) -> None:
        action: Action = action_from_json(step.action or "")
        dialect = dialect_for(episode.query.platform)
        frame = native_frame(self._tools.screens.size(step.screen_after))
        try:
            call = bare_call(action, dialect, frame)
        except NotExpressible as error:
            collected.refuse("not_expressible", step, variant=ACTION, detail=str(error))
            return
        if any(placeholder in call for placeholder in PLACEHOLDERS):
            collected.refuse("placeholder_in_text", step, variant=ACTION)
            return
        messages = (
            Message(role="system", content=dialect.system_prompt(frame)),
            Message(role="user", content=_ASK_ACTION),
            Message(role="assistant", content=call),
        )
        hit = step.target.bounds if step.target is not None else None
        screens = (step.screen_before, step.screen_after)
        collected.add(Lesson(messages, screens, ACTION, episode.trajectory.model_version, action, hit), step)

    async def _add_effect(self, episode: Episode, step: Step, caption: SeenStep, collected: Collected) -> None:
        text, author = effect_in_words(caption), TEMPLATE
        if self._describer is not None:
            try:
                voted = await self._describer.best(episode, step, self._tools.screens)
            except StageError as error:
                collected.fail(error, step)
                return
            if voted.share < self._spec.agree_from:
                detail = f"{voted.agreed} of {voted.votes} votes: {voted.text}"
                collected.refuse("not_consistent", step, variant=EFFECT, detail=detail)
                return
            text, author = voted.text, self._describer.version
        if any(placeholder in text for placeholder in PLACEHOLDERS):
            collected.refuse("placeholder_in_text", step, variant=EFFECT)
            return
        messages = (
            Message(role="system", content=_EFFECT_SYSTEM),
            Message(role="user", content=_ASK_EFFECT),
            Message(role="assistant", content=text),
        )
        collected.add(Lesson(messages, (step.screen_before, step.screen_after), EFFECT, author), step)


def effect_in_words(step: SeenStep) -> str:
    """Action and effect in a sentence, without the id of the page, which no screen shows."""
    return step.caption.replace(f" of {quoted(step.outcome.after.page)}", "")
