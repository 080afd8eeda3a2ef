"""Describes screens in words for the text channel: from the tree if there is one, else by a model.

The textual channel of paper 6.3 reads captions of screenshots and summaries of steps, whoever writes the captions. A
tree is exact and costs nothing; pixels alone need a vision-language model.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class ScreenCaptioner:
    model: ChatModel | None = None
    """The model in the role `describer`; None leaves screens without a tree undescribed."""
    prompt: Prompt = field(default_factory=lambda: critic_prompts().describer)
    sampling: Sampling = GREEDY

    @property
    def version(self) -> str:
        return "tree-caption-1" + (f"|{PromptedModel(self.model, self.prompt).version}" if self.model else "")

    async def caption(self, screen_id: str, screens: ScreenReader, trajectory_id: str, step_index: int) -> str:
        """Describe a screen in one line; text of the screen is in double quotes.

        Raises:
            KeyError: the screen is not stored.
            JudgeFailure: it has no tree, and no model gave a usable caption.
            ModelFailure: the model did not answer.
        """
        elements = screens.elements(screen_id)
        if elements:
            caption = quotable(_tree_caption(screen_id, elements))
            return caption if len(caption) <= LONGEST_CAPTION else caption[:LONGEST_CAPTION] + ' [the rest is cut]"'
        if self.model is None:
            raise JudgeFailure(f"{trajectory_id}: screen {screen_id} has no tree, and no model describes screens")
        shown = (picture(screen_id, screens),)
        request = critic_request("describer", self.prompt.fill(), shown, self.sampling, trajectory_id, step_index)
        answer = await ask_critic(self.model, request, CaptionAnswer, f"{trajectory_id}: caption of {screen_id}")
        return untrusted(answer.caption, LONGEST_CAPTION)


def _tree_caption(screen_id: str, elements: tuple[UIElement, ...]) -> str:
    """List all text of a screen, the most important first: values of controls, data, items, then the rest."""

    def beside(note: str) -> str:
        return f" with {quoted(note)}" if note else ""

    state = read_screen(screen_id, elements)
    said = {state.title, *state.values, *(text for text, _ in state.items)}
    said |= {word for control in state.controls.values() for word in (control.label, control.value)}
    parts = [f"{c.kind} {quoted(c.label)} is {quoted(c.value)}" for c in state.controls.values()]
    parts += [f"typing goes to {describe_element(e)}" for e in elements if "focused" in e.states]
    parts += [f"shows {quoted(text)}" for text in state.values]
    parts += [f"lists {quoted(text)}{beside(note)}" for text, note in state.items]
    # The value of a part of a control only names its group.
    others = (
        f"{describe_element(e)}{beside('' if control_kind(e) else e.value)}"
        for e in elements
        if e.text and e.text not in said
    )
    parts += list(dict.fromkeys(others))[:_MOST_OTHERS]
    if any(element.role == "keyboard" for element in elements):
        parts.append("the keyboard is up")
    return f"{quoted(state.title)} of {quoted(state.page)}: {'; '.join(parts) or 'nothing with words on it'}."
