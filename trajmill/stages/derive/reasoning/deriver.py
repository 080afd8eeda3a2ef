"""Derives thoughts by rejection sampling: one is kept if the stored action follows from it alone (paper 2.2.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import dialect_for
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import StageError
from trajmill.schemas.tables.example import Message
from trajmill.schemas.tables.step import Step
from trajmill.stages.derive.base import DerivedRows
from trajmill.stages.derive.collected import RULE_AGENTS, WALK_WORDS, Collected, Lesson, is_walk, writes_templates
from trajmill.stages.derive.conversation import prompt_messages, rendered, unfit_text
from trajmill.stages.derive.kind_spec import Tools
from trajmill.stages.derive.reasoning.spec import ReasoningSpec
from trajmill.stages.derive.reasoning.thinker import NO_HINT, Thinker, ThinkerPrompts, says_something
from trajmill.stages.derive.step_data import StepDataSpec, select_steps

AGENTS, ONLINE, HINTED = "agents", "online", "hinted"


class _AcceptedThought(NamedTuple):
    thought: str
    variant: str
    author: str


class Reasoning:
    """Derives thoughts with models."""

    def __init__(self, spec: ReasoningSpec, tools: Tools) -> None:
        assert tools.describer is not None
        self._spec = spec
        self._tools = tools
        prompts = ThinkerPrompts(tools.prompts.think, tools.prompts.act, tools.prompts.merge)
        self._thinker = Thinker(tools.describer, tools.writer, prompts, tools.screens)

    async def derive(self, episode: Episode, only: frozenset[int] | None = None) -> DerivedRows:
        """The examples of the steps of a correct trajectory that CODA's signals leave."""
        collected = Collected(self._tools.maker, episode)
        selected = select_steps(episode, StepDataSpec(failed=False), self._tools.screens)
        if not isinstance(selected, str) and is_walk(episode):
            selected = WALK_WORDS
        if isinstance(selected, str):
            collected.refuse(selected)
            return collected.rows()
        for step, made in zip(episode.steps, selected, strict=True):
            if made.variant is None:
                collected.refuse(made.reason, step)
                continue
            try:
                await self._derive_step(episode, step, collected)
            except StageError as error:
                collected.fail(error, step)
        return collected.rows()

    async def _derive_step(self, episode: Episode, step: Step, collected: Collected) -> None:
        by_rule = episode.trajectory.agent in RULE_AGENTS
        if "agents" in self._spec.sources and step.role_outputs != "{}" and not by_rule:
            await self._keep_merged(episode, step, collected)
        if "online" in self._spec.sources:
            await self._keep_own(episode, step, collected)
        if "offline" in self._spec.sources:
            kept = await self._sampled(episode, step)
            if isinstance(kept, str):
                collected.refuse(kept, step, variant="offline")
            else:
                self._add(episode, step, kept, collected)

    async def _keep_merged(self, episode: Episode, step: Step, collected: Collected) -> None:
        author = self._thinker.merged_version
        if author is None:
            collected.refuse("no_writer", step, variant=AGENTS)
            return
        thought = await self._thinker.merge(episode, step)
        unfit = self._thinker.unfit_thought(step, thought)
        await self._keep_checked(episode, step, _AcceptedThought(thought, AGENTS, author), unfit, collected)

    async def _keep_own(self, episode: Episode, step: Step, collected: Collected) -> None:
        author = episode.trajectory.model_version
        if writes_templates(author) and step.thought.strip():
            collected.refuse("template_thought", step, variant=ONLINE)
            return
        # The policy was told no action, so the numbers that it thinks of are its own.
        unfit = None if says_something(step.thought) else "no_thought"
        await self._keep_checked(episode, step, _AcceptedThought(step.thought, ONLINE, author), unfit, collected)

    async def _keep_checked(
        self, episode: Episode, step: Step, kept: _AcceptedThought, unfit: str | None, collected: Collected
    ) -> None:
        if unfit is not None:
            collected.refuse(unfit, step, variant=kept.variant)
        elif await self._thinker.leads_to_action(episode, step, kept.thought):
            self._add(episode, step, kept, collected)
        else:
            collected.refuse("other_action", step, variant=kept.variant)

    async def _sampled(self, episode: Episode, step: Step) -> _AcceptedThought | str:
        """The first thought from which the stored action follows, or why the last one is refused.

        The action is told only after all others failed.
        """
        unfit: str | None = None
        for number, (style, variant, hint) in enumerate(self._tries(step)):
            thought = await self._thinker.think(episode, step, style, hint, number)
            unfit = self._thinker.unfit_thought(step, thought)
            if unfit is None and await self._thinker.leads_to_action(episode, step, thought):
                return _AcceptedThought(thought, variant, self._thinker.version)
        return unfit or "other_action"

    def _tries(self, step: Step) -> Iterator[tuple[str, str, str]]:
        """Style, sort of example and hint of each try."""
        styles = self._spec.styles
        for number in range(self._spec.tries):
            place = (step.index + number) % len(styles)
            yield styles[place], f"style_{place + 1}", NO_HINT
        if self._spec.hint:
            yield styles[step.index % len(styles)], HINTED, self._thinker.hint(step)

    def _add(self, episode: Episode, step: Step, kept: _AcceptedThought, collected: Collected) -> None:
        dialect, frame = dialect_for(episode.query.platform), native_frame(self._tools.screens.size(step.screen_before))
        action = action_from_json(step.action or "")
        text = rendered(Reply(kept.thought, action, step.conclusion), dialect, frame)
        reason = "not_round_trip" if text is None else unfit_text(step, text, episode.guidance)
        if text is None or reason is not None:
            collected.refuse(reason or "not_round_trip", step, variant=kept.variant)
            return
        messages = (*prompt_messages(dialect, step, frame), Message(role="assistant", content=text))
        hit = step.target.bounds if step.target is not None else None
        collected.add(Lesson(messages, (step.screen_before,), kept.variant, kept.author, action, hit), step)
