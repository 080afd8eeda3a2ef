"""Derives thoughts by rejection sampling: one is kept if the stored action follows from it alone (paper 2.2.3)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

from pydantic import StringConstraints

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import StageError
from trajmill.schemas.record import Record
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.critics.model.marking import action_in_words, picture, untrusted
from trajmill.stages.critics.replay import describe_element, read_element_action
from trajmill.stages.derive.collected import (
    RULE_AGENTS,
    WALK_WORDS,
    Collected,
    KindDeriver,
    Lesson,
    is_walk,
    writes_templates,
)
from trajmill.stages.derive.conversation import about, step_messages
from trajmill.stages.derive.kind_spec import Tools
from trajmill.stages.derive.spec import ReasoningSpec, StepDataSpec
from trajmill.stages.derive.step_data import select_steps
from trajmill.stages.metrics.action_match import RightAction, match_action
from trajmill.stages.models.base import ChatMessage, ChatRequest
from trajmill.stages.models.prompts import PromptedModel, Sampling, on_lines

AGENTS, ONLINE, OFFLINE, HINTED = "agents", "online", "offline", "hinted"
NO_HINT = "(not told)"
_LONGEST = 1200
_LONGEST_ROLES = 6000
_PLACEHOLDERS: Final = frozenset(
    ("not told", "none", "null", "nothing", "empty", "n a", "na", "thought", "the thought", "unknown", "tbd")
)
"""Texts in the place of a thought: words of the prompt, or for nothing."""
_NUMBER = r"\d+(?:\.\d+)?\s*(?:%|px\b|pixels?\b)?"
_POSITIONS: Final = re.compile(
    rf"[(\[]\s*(?:x\s*[=:]\s*)?{_NUMBER}\s*[,;]\s*(?:y\s*[=:]\s*)?{_NUMBER}\s*[)\]]"
    rf"|\bx\s*[=:]\s*{_NUMBER}"
    r"|\d+(?:\.\d+)?\s*%\s*(?:,|;|/|and|by)\s*\d+(?:\.\d+)?\s*%"
    r"|\d+(?:\.\d+)?\s*(?:%|px|pixels?)\s*(?:of the way\s*)?(?:across|down|from the (?:left|top|right|bottom))"
    rf"|\b(?:coordinates?|positions?|points?|pixels?)\s*:?\s*{_NUMBER}\s*,\s*{_NUMBER}",
    re.IGNORECASE,
)
"""A point of the screen in numbers, as hints and models write it."""
_ABOUT_HINTS: Final = re.compile(
    r"\bhint(?:s|ed)?\b|\bthe (?:right|correct|given|stored) action (?:is|was|says|tells)\b|\bI (?:was|am) told\b",
    re.IGNORECASE,
)


def says_something(thought: str) -> bool:
    """Return whether a thought is more than blanks, punctuation or a placeholder."""
    words = " ".join(re.findall(r"\w+", thought.replace("_", " ").casefold()))
    return words != "" and words not in _PLACEHOLDERS


def told_by_hint(thought: str, known: str) -> str | None:
    """Return why a thought can only come from a hint, `tells_position` or `tells_hint`; None if it need not.

    A thought from a picture names an element and no numbers of its place, from which alone the action would follow.
    `known` has the task and the texts of the screen and the action, which may be repeated.
    """
    for pattern, reason in ((_POSITIONS, "tells_position"), (_ABOUT_HINTS, "tells_hint")):
        if any(found[0].casefold() not in known.casefold() for found in pattern.finditer(thought)):
            return reason
    return None


class ThoughtAnswer(Record):
    """The answer of a model that thinks."""

    thought: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST)]


class _Thought(NamedTuple):
    text: str
    variant: str
    author: str
    unfit: str | None


class Reasoning(KindDeriver[ReasoningSpec]):
    def __init__(self, spec: ReasoningSpec, tools: Tools) -> None:
        super().__init__(spec, tools)
        assert tools.describer is not None
        self._model, prompts = tools.describer, tools.prompts
        self._thinking = PromptedModel(self._model, prompts["think"])
        self._acting = prompts["act"]
        self._merging = None if tools.writer is None else PromptedModel(tools.writer, prompts["merge"])

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        selected = select_steps(episode, StepDataSpec(failed=False), self.tools.screens)
        if isinstance(selected, str) or is_walk(episode):
            collected.refuse(selected if isinstance(selected, str) else WALK_WORDS)
            return
        for step, made in zip(episode.steps, selected, strict=True):
            if made.variant is None:
                collected.refuse(made.reason, step)
                continue
            try:
                await self._collect_step(episode, step, collected)
            except StageError as error:
                collected.fail(error, step)

    async def _collect_step(self, episode: Episode, step: Step, collected: Collected) -> None:
        trajectory, sources = episode.trajectory, self.spec.sources
        if "agents" in sources and step.role_outputs != "{}" and trajectory.agent not in RULE_AGENTS:
            if self._merging is None:
                collected.refuse("no_writer", step, variant=AGENTS)
            else:
                text = await self._merged(self._merging, episode, step)
                merged = _Thought(text, AGENTS, self._merging.version, self._unfit_thought(step, text))
                await self._keep(episode, step, merged, collected)
        if "online" in sources:
            author = trajectory.model_version
            if writes_templates(author) and step.thought.strip():
                collected.refuse("template_thought", step, variant=ONLINE)
            else:
                # The policy was given no action, so the numbers in its thoughts are its own.
                unfit = None if says_something(step.thought) else "no_thought"
                await self._keep(episode, step, _Thought(step.thought, ONLINE, author, unfit), collected)
        if "offline" in sources:
            await self._keep(episode, step, await self._sampled(episode, step), collected, checked=True)

    async def _keep(
        self, episode: Episode, step: Step, thought: _Thought, collected: Collected, checked: bool = False
    ) -> None:
        """Add a thought from which the stored action follows; `checked` if that is certain."""
        made: Lesson | str = thought.unfit or ""
        if not made and (checked or await self._leads_to_action(episode, step, thought.text)):
            size, action = self.tools.screens.size(step.screen_before), action_from_json(step.action or "")
            said = step_messages(episode, step, size, thought.text)
            hit, author = step.target.bounds if step.target is not None else None, thought.author
            shown = (step.screen_before,)
            made = said if isinstance(said, str) else Lesson(said, shown, thought.variant, author, action, hit)
        collected.add_or_refuse(made or "other_action", step, thought.variant)

    async def _sampled(self, episode: Episode, step: Step) -> _Thought:
        """Return the first thought from which the stored action follows, or the last one with its refusal.

        The action is given to the model only after all other tries failed.
        """
        unfit: str | None = None
        for number, (style, variant, hint) in enumerate(self._tries(step)):
            fields = {"prompt": untrusted(step.prompt), "style": style, "hint": hint}
            sampling, shown = Sampling(temperature=1.0, seed=number), picture(step.screen_before, self.tools.screens)
            request = self._thinking.request("describer", fields, (shown,), sampling, on_lines)
            answer = await self._thinking.ask(about(request, episode, step), ThoughtAnswer)
            thought = " ".join(answer.thought.split())
            unfit = self._unfit_thought(step, thought)
            if unfit is None and await self._leads_to_action(episode, step, thought):
                return _Thought(thought, variant, self._thinking.version, None)
        return _Thought("", OFFLINE, "", unfit or "other_action")

    def _tries(self, step: Step) -> Iterator[tuple[str, str, str]]:
        styles = self.spec.styles
        for number in range(self.spec.tries):
            place = (step.index + number) % len(styles)
            yield styles[place], f"style_{place + 1}", NO_HINT
        yield styles[step.index % len(styles)], HINTED, self._hint(step)

    def _hint(self, step: Step) -> str:
        """Return the stored action in words; without a position where the words identify the element."""
        elements, size = self.tools.screens.elements(step.screen_before), self.tools.screens.size(step.screen_before)
        pressed = read_element_action(step.action, elements).element
        told = describe_element(pressed)
        alone = pressed is not None and [describe_element(each) for each in elements].count(told) == 1
        return action_in_words(step.action, elements, size, place_of_named=not alone)

    async def _merged(self, merging: PromptedModel, episode: Episode, step: Step) -> str:
        said = json.dumps(json.loads(step.role_outputs), ensure_ascii=False)
        fields = {"prompt": untrusted(step.prompt), "roles": untrusted(said, _LONGEST_ROLES)}
        request = merging.request("writer", fields, layout=on_lines)
        answer = await merging.ask(about(request, episode, step), ThoughtAnswer)
        return " ".join(answer.thought.split())

    async def _leads_to_action(self, episode: Episode, step: Step, thought: str) -> bool:
        """Return whether the stored action follows from a thought and the screen, without the task and the history."""
        size = self.tools.screens.size(step.screen_before)
        dialect, frame = ANY.dialect(episode.query.platform), self._model.frame(size)
        filled = self._acting.fill(thought=untrusted(thought))
        system = f"{dialect.system_prompt(frame)}\n\n{filled.system}"
        user = on_lines((filled.user, picture(step.screen_before, self.tools.screens)))
        request = ChatRequest("describer", (ChatMessage("system", (system,)), ChatMessage("user", user)))
        completion = await self._model.complete(about(request, episode, step))
        read = dialect.parse(completion.text, frame)
        box = step.target.bounds if step.target is not None else None
        right = RightAction(action_from_json(step.action or ""), box, size)
        return match_action(read.action if isinstance(read, Reply) else None, right).parameters

    def _unfit_thought(self, step: Step, thought: str) -> str | None:
        """Return why an agent could not have a thought from its task and its screen; None if it could."""
        if not says_something(thought):
            return "no_thought"
        shown = (element.text for element in self.tools.screens.elements(step.screen_before))
        return told_by_hint(thought, "\n".join((step.prompt, step.action or "", *shown)))
