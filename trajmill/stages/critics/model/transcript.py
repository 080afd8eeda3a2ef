"""Makes the part of an episode that a trajectory critic reads: screens and, between them, a line for each step.

It has only what could be seen: the actions, the screens and the step critic's summaries. It has no goal, constraints,
path or reward, and no thoughts of the agent: its opinion of itself must not influence the critic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeVar

from pydantic import StringConstraints

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenReader, UIElement
from trajmill.schemas.record import Record
from trajmill.schemas.tables.trajectory import StopReason
from trajmill.stages.critics.model.marking import action_in_words, picture, quotable, untrusted
from trajmill.stages.critics.replay import control_kind, describe_element, quoted, read_screen, stored_evidence
from trajmill.stages.critics.voting import StepResult
from trajmill.stages.models.base import ChatModel, ChatRequest, MessagePart
from trajmill.stages.models.prompts import GREEDY, AnswerFailure, Prompt, PromptedModel, Sampling, ask, on_lines

A = TypeVar("A", bound=Record)
Said = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_BYTES_PER_TOKEN = 3
"""UTF-8 bytes per token, chosen low: Latin text has about four, Chinese about three."""
_PATCH = 28
"""Pixels on one side of an image token in Qwen2.5-VL; later families have larger tokens."""
_FRAME_TOKENS = 10
_LIMITS = {StopReason.STEP_LIMIT: "steps", StopReason.TIME_LIMIT: "time", StopReason.TOKEN_LIMIT: "tokens"}


def text_tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN) + _FRAME_TOKENS


def picture_tokens(model: ChatModel, screen: Size, scale: float) -> int:
    """Estimate the tokens of a scaled screen, within the model's own pixel budget."""
    sent = model.frame(Size(*(max(1, round(side * scale)) for side in screen))).resized
    return math.ceil(sent.width / _PATCH) * math.ceil(sent.height / _PATCH) + _FRAME_TOKENS


async def ask_critic(model: ChatModel, request: ChatRequest, answer: type[A], subject: str) -> A:
    """Ask a model for one answer. Raises JudgeFailure if none is valid, ModelFailure if there is none."""
    try:
        return await ask(model, request, answer)
    except AnswerFailure as failure:
        raise JudgeFailure(f"{subject}: {failure}") from None


class KeptPositions(NamedTuple):
    screens: tuple[int, ...]
    steps: tuple[int, ...]


def kept(count: int, wanted: int) -> tuple[int, ...]:
    """Select `wanted` of `count` positions: the first, the last half, and some spread between; of one, the last."""
    if wanted >= count:
        return tuple(range(count))
    if wanted <= 1:
        return tuple(range(count - wanted, count))
    tail = wanted // 2
    between, spread = count - 1 - tail, wanted - 1 - tail
    middle = (1 + (2 * at + 1) * between // (2 * spread) for at in range(spread))
    return (0, *middle, *range(count - tail, count))


def fit(screen_tokens: Sequence[int], step_tokens: Sequence[int], room: int, subject: str) -> KeptPositions:
    """Select screens and steps that fit into `room` tokens. Raises JudgeFailure if not even two of each fit."""
    screens, steps = len(screen_tokens), len(step_tokens)
    least = min(2, screens)
    sizes = [(count, steps) for count in range(screens, least, -1)]
    sizes += [(least, count) for count in range(steps, min(2, steps) - 1, -1)]
    for screen_count, step_count in sizes:
        found = KeptPositions(kept(screens, screen_count), kept(steps, step_count))
        if sum(screen_tokens[at] for at in found.screens) + sum(step_tokens[at] for at in found.steps) <= room:
            return found
    what = "two steps and two screens" if screen_tokens else "two steps"
    raise JudgeFailure(f"{subject}: not even {what} fit into the {room} tokens left for them")


class TranscriptScreen(NamedTuple):
    screen_id: str
    after: int
    """Number of the step that led to it; 0 for the first screen."""


class Transcript(NamedTuple):
    screens: tuple[TranscriptScreen, ...]
    """A screen that a step did not change is not repeated."""
    steps: tuple[str, ...]
    ending: str


def transcribe(episode: Episode, screens: ScreenReader, notes: Sequence[StepResult]) -> Transcript:
    """Make the transcript of an episode. Raises JudgeFailure if it has no step, or one that cannot be read."""
    if not episode.steps:
        raise JudgeFailure(f"{episode.trajectory.trajectory_id}: there is no step to judge")
    summaries = {note.index: note.summary for note in notes}
    shown = [TranscriptScreen(episode.steps[0].screen_before, 0)]
    lines: list[str] = []
    with stored_evidence(episode):
        for number, step in enumerate(episode.steps, start=1):
            words = action_in_words(step.action, screens.elements(step.screen_before), screens.size(step.screen_before))
            moved = step.screen_after != shown[-1].screen_id
            note = f" Noted: {untrusted(summaries[step.index])}." if step.index in summaries else ""
            lines.append(f"Step {number}: {words}.{note}{'' if moved else ' The screen stayed the same.'}")
            if moved:
                shown.append(TranscriptScreen(step.screen_after, number))
    ending, reason = "", episode.trajectory.stop_reason
    if reason is StopReason.AGENT_DONE:
        ending = "The agent ended the episode itself."
    elif reason in _LIMITS:
        ending = f"The agent was stopped at its limit of {_LIMITS[reason]}; it had not said that it was done."
    return Transcript(tuple(shown), tuple(lines), ending)


def lay_out(transcript: Transcript, kept: KeptPositions, show: Callable[[str], MessagePart]) -> tuple[MessagePart, ...]:
    """Return the message parts of screens and steps in order; a line names the steps that are left out."""
    screens = {transcript.screens[at].after: transcript.screens[at] for at in kept.screens}
    parts: list[MessagePart] = []
    first_left_out: int | None = None
    for number in range(len(transcript.steps) + 1):
        is_shown = number - 1 in kept.steps
        if number and not is_shown:
            first_left_out = first_left_out or number
        if first_left_out is not None and (is_shown or number in screens):
            last = number - 1 if is_shown else number
            parts.append(f"(Steps {first_left_out} to {last} are left out.)")
            first_left_out = None
        if is_shown:
            parts.append(transcript.steps[number - 1])
        if number in screens:
            label = f"Screen after step {number}:" if number else "Screen before step 1:"
            parts += [label, show(screens[number].screen_id)]
    return (*parts, transcript.ending)


def omission_note(screens: int, transcript: Transcript, kept: KeptPositions) -> str:
    shown, lines, steps = len(kept.screens), len(kept.steps), len(transcript.steps)
    if shown == screens and lines == steps:
        return f"All {screens} different screens and all {steps} steps follow."
    which = "the first, the last ones and some spread evenly between them"
    return (
        f"There are {screens} different screens and {steps} steps; for want of room {screens - shown} screens and "
        f"{steps - lines} steps are left out. Shown are {which}."
    )


LONGEST_CAPTION = 2000
"""Most characters of a caption; a long page must leave room for the screens after it."""
_MOST_OTHERS = 40


class CaptionAnswer(Record):
    caption: Said


@dataclass(frozen=True, slots=True)
class ScreenCaptioner:
    prompt: Prompt
    model: ChatModel | None = None
    """The model in the role `describer`; None leaves screens without a tree undescribed."""
    sampling: Sampling = GREEDY

    @property
    def version(self) -> str:
        return "tree-caption-1" + (f"|{PromptedModel(self.model, self.prompt).version}" if self.model else "")

    async def caption(self, screen_id: str, screens: ScreenReader, trajectory_id: str, step_index: int) -> str:
        """Describe a screen in one line; text of the screen is in double quotes.

        Raises KeyError if it is not stored, JudgeFailure without a tree and without a model's usable caption, and
        ModelFailure if the model did not answer.
        """
        elements = screens.elements(screen_id)
        if elements:
            caption = quotable(_tree_caption(screen_id, elements))
            return caption if len(caption) <= LONGEST_CAPTION else caption[:LONGEST_CAPTION] + ' [the rest is cut]"'
        if self.model is None:
            raise JudgeFailure(f"{trajectory_id}: screen {screen_id} has no tree, and no model describes screens")
        prompted, shown = PromptedModel(self.model, self.prompt), (picture(screen_id, screens),)
        request = prompted.request("describer", {}, shown, self.sampling, on_lines, trajectory_id, step_index)
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
