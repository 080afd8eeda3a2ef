"""Asks models for thoughts, and for the action that follows from a thought alone."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Annotated, Final, NamedTuple

from pydantic import StringConstraints

from trajmill.schemas.actions import Action, action_from_json
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import dialect_for
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenHandle, ScreenReader
from trajmill.schemas.record import Record
from trajmill.schemas.tables.step import Step
from trajmill.stages.critics.model.action_words import action_in_words, untrusted
from trajmill.stages.critics.model.marking import picture
from trajmill.stages.critics.trees.caption import describe_element, read_element_action
from trajmill.stages.metrics.action_match import RightAction, match_action
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, on_lines

_PLACEHOLDERS: Final = frozenset(
    ("not told", "none", "null", "nothing", "empty", "n a", "na", "thought", "the thought", "unknown", "tbd")
)
"""What stands in the place of a thought: a word of the prompt, or one for nothing."""
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
    """Whether a thought is more than blanks, punctuation or a placeholder.

    A model that presses the same place whatever it is told passes the check of the action by chance, and such a thought
    with it.
    """
    words = " ".join(re.findall(r"\w+", thought.replace("_", " ").casefold()))
    return words != "" and words not in _PLACEHOLDERS


def told_by_hint(thought: str, known: str) -> str | None:
    """Why a thought can only be had from a hint; None if it need not be.

    Who thinks from a picture names an element, and no numbers of its place: the action would follow from those alone,
    whatever the rest of the thought says.

    Args:
        thought: of a model that may have been told the right action.
        known: the task, the texts of the screen and of the action; what stands there may be repeated.

    Returns:
        `tells_position` or `tells_hint`.
    """
    if _says_more_than(thought, _POSITIONS, known):
        return "tells_position"
    return "tells_hint" if _says_more_than(thought, _ABOUT_HINTS, known) else None


def _says_more_than(thought: str, what: re.Pattern[str], known: str) -> bool:
    return any(found[0].casefold() not in known.casefold() for found in what.finditer(thought))


_LONGEST = 1200
_LONGEST_ROLES = 6000
NO_HINT = "(not told)"


class ThoughtAnswer(Record):
    """The answer of a model that thinks."""

    thought: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST)]


class ThinkerPrompts(NamedTuple):
    """The prompts of all questions."""

    think: Prompt
    act: Prompt
    merge: Prompt


class Thinker:
    """Thinks before the steps of an episode, and checks thoughts."""

    def __init__(
        self, model: ChatModel, writer: ChatModel | None, prompts: ThinkerPrompts, screens: ScreenReader
    ) -> None:
        self._model = model
        self._thinking = PromptedModel(model, prompts.think)
        self._acting = PromptedModel(model, prompts.act)
        self._merging = None if writer is None else PromptedModel(writer, prompts.merge)
        self._screens = screens

    @property
    def version(self) -> str:
        """Prompt and model of new thoughts."""
        return self._thinking.version

    @property
    def merged_version(self) -> str | None:
        """Prompt and model of merged thoughts; None without a writer."""
        return None if self._merging is None else self._merging.version

    async def think(self, episode: Episode, step: Step, style: str, hint: str, number: int) -> str:
        """A thought that leads to the next action.

        Args:
            episode: of the step.
            step: the step; its action is not told, but by the hint.
            style: what the thought shall be like.
            hint: the right action in words, or `NO_HINT`.
            number: of the try; each samples with another seed.

        Raises:
            ModelFailure: no valid answer.
        """
        fields = {"prompt": untrusted(step.prompt), "style": style, "hint": hint}
        sampling = Sampling(temperature=1.0, seed=number)
        request = self._thinking.request("describer", fields, (self._screen(step),), sampling, on_lines)
        answer = await self._thinking.ask(_about(request, episode, step), ThoughtAnswer)
        return " ".join(answer.thought.split())

    async def merge(self, episode: Episode, step: Step) -> str:
        """One thought from what the roles of a multi-agent framework said at a step.

        Raises:
            ModelFailure: no valid answer.
        """
        assert self._merging is not None
        said = json.dumps(json.loads(step.role_outputs), ensure_ascii=False)
        fields = {"prompt": untrusted(step.prompt), "roles": untrusted(said, _LONGEST_ROLES)}
        request = self._merging.request("writer", fields, layout=on_lines)
        answer = await self._merging.ask(_about(request, episode, step), ThoughtAnswer)
        return " ".join(answer.thought.split())

    async def leads_to_action(self, episode: Episode, step: Step, thought: str) -> bool:
        """Whether the stored action follows from a thought and the screen, without the task and the history.

        Raises:
            ModelFailure: the model did not answer.
        """
        size = self._screens.size(step.screen_before)
        dialect, frame = dialect_for(episode.query.platform), self._model.frame(size)
        filled = self._acting.prompt.fill(thought=untrusted(thought))
        system = f"{dialect.system_prompt(frame)}\n\n{filled.system}"
        user = on_lines((filled.user, self._screen(step)))
        request = ChatRequest("describer", (ChatMessage("system", (system,)), ChatMessage("user", user)))
        completion = await self._model.complete(_about(request, episode, step))
        read = dialect.parse(completion.text, frame)
        said: Action | None = read.action if isinstance(read, Reply) else None
        box = step.target.bounds if step.target is not None else None
        return match_action(said, RightAction(action_from_json(step.action or ""), box, size)).parameters

    def hint(self, step: Step) -> str:
        """The stored action in words; without a position where the words tell the element from all others."""
        elements, size = self._screens.elements(step.screen_before), self._screens.size(step.screen_before)
        pressed = read_element_action(step.action, elements).element
        told = describe_element(pressed)
        alone = pressed is not None and [describe_element(each) for each in elements].count(told) == 1
        return action_in_words(step.action, elements, size, place_of_named=not alone)

    def unfit_thought(self, step: Step, thought: str) -> str | None:
        """Why a thought is none that an agent could have from its task and its screen; None if it is one."""
        if not says_something(thought):
            return "no_thought"
        shown = (element.text for element in self._screens.elements(step.screen_before))
        return told_by_hint(thought, "\n".join((step.prompt, step.action or "", *shown)))

    def _screen(self, step: Step) -> ScreenHandle:
        return picture(step.screen_before, self._screens)


def _about(request: ChatRequest, episode: Episode, step: Step) -> ChatRequest:
    return replace(request, trajectory_id=episode.trajectory.trajectory_id, step_index=step.index)
