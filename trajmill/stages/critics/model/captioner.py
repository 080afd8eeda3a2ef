"""Describes screens in words for the text channel: from the tree if there is one, else by a model.

The textual channel of paper 6.3 reads captions of screenshots and summaries of steps; the paper does not say who writes
the captions. A tree is exact and costs nothing; pixels alone need a vision-language model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader, UIElement
from trajmill.stages.critics.model.action_words import quotable, untrusted
from trajmill.stages.critics.model.marking import picture
from trajmill.stages.critics.model.request import CaptionAnswer, ask_critic, critic_prompts, critic_request
from trajmill.stages.critics.trees.caption import describe_element, quoted
from trajmill.stages.critics.trees.screen_state import control_kind, read_screen
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompts import GREEDY, Prompt, PromptedModel, Sampling

LONGEST_CAPTION = 2000
"""Most characters of a caption; a long page must leave room for the screens after it."""
_MOST_OTHERS = 40
"""Most further elements that a caption lists."""


class ScreenCaptioner(Protocol):
    """Describes screens in words."""

    @property
    def version(self) -> str:
        """Identifies the writer of the captions."""
        ...

    async def caption(self, screen_id: str, screens: ScreenReader, trajectory_id: str, step_index: int) -> str:
        """Describe a screen in one line; text of the screen is in double quotes.

        Args:
            screen_id: the screen.
            screens: where the screen is read.
            trajectory_id: the trajectory of the screen, for the row of a model call.
            step_index: the step that led to the screen, for the same row.

        Raises:
            KeyError: the screen is not stored.
            JudgeFailure: no usable caption.
            ModelFailure: its model did not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class TreeCaptioner:
    """Describes the accessibility tree; asks no model itself."""

    without_tree: ScreenCaptioner | None = None
    """The captioner for screens without a tree."""

    @property
    def version(self) -> str:
        """Its own version, and that of the captioner for screens without a tree."""
        return "tree-caption-1" + (f"|{self.without_tree.version}" if self.without_tree is not None else "")

    async def caption(self, screen_id: str, screens: ScreenReader, trajectory_id: str, step_index: int) -> str:
        """Describe page, controls, values and items, then the other elements that have text.

        Raises:
            KeyError: the screen is not stored.
            JudgeFailure: it has no tree, and there is no other captioner or it gave no usable caption.
            ModelFailure: the model of the other captioner did not answer.
        """
        elements = screens.elements(screen_id)
        if not elements and self.without_tree is not None:
            return await self.without_tree.caption(screen_id, screens, trajectory_id, step_index)
        if not elements:
            raise JudgeFailure(f"{trajectory_id}: screen {screen_id} has no tree, and no model describes screens")
        return _cut(quotable(_tree_caption(screen_id, elements)))


@dataclass(frozen=True, slots=True)
class ModelCaptioner:
    """Asks a model in the role `describer` to describe the screenshot."""

    model: ChatModel
    prompt: Prompt = field(default_factory=lambda: critic_prompts().describer)
    sampling: Sampling = GREEDY

    @property
    def version(self) -> str:
        """The versions of prompt and model."""
        return PromptedModel(self.model, self.prompt).version

    async def caption(self, screen_id: str, screens: ScreenReader, trajectory_id: str, step_index: int) -> str:
        """The model's description, in double quotes.

        Raises:
            KeyError: the screen is not stored.
            JudgeFailure: the model gave no usable caption.
            ModelFailure: the model did not answer.
        """
        shown = (picture(screen_id, screens),)
        request = critic_request("describer", self.prompt.fill(), shown, self.sampling, trajectory_id, step_index)
        answer = await ask_critic(self.model, request, CaptionAnswer, f"{trajectory_id}: caption of {screen_id}")
        return untrusted(answer.caption, LONGEST_CAPTION)


def _tree_caption(screen_id: str, elements: tuple[UIElement, ...]) -> str:
    """All text of a screen, the most important first: values of controls, data, items, then the rest."""
    state = read_screen(screen_id, elements)
    said = {state.title, *state.values, *(text for text, _ in state.items)}
    said |= {word for control in state.controls.values() for word in (control.label, control.value)}
    parts = [f"{c.kind} {quoted(c.label)} is {quoted(c.value)}" for c in state.controls.values()]
    parts += [f"typing goes to {describe_element(e)}" for e in elements if "focused" in e.states]
    parts += [f"shows {quoted(text)}" for text in state.values]
    parts += [f"lists {quoted(text)}{_beside(note)}" for text, note in state.items]
    others = (f"{describe_element(e)}{_beside(_note(e))}" for e in elements if e.text and e.text not in said)
    parts += list(dict.fromkeys(others))[:_MOST_OTHERS]
    if any(element.role == "keyboard" for element in elements):
        parts.append("the keyboard is up")
    return f"{quoted(state.title)} of {quoted(state.page)}: {'; '.join(parts) or 'nothing with words on it'}."


def _note(element: UIElement) -> str:
    """Further facts about an element; the value of a part of a control names its group."""
    return "" if control_kind(element) else element.value


def _beside(note: str) -> str:
    return f" with {quoted(note)}" if note else ""


def _cut(caption: str) -> str:
    return caption if len(caption) <= LONGEST_CAPTION else caption[:LONGEST_CAPTION] + ' [the rest is cut]"'
