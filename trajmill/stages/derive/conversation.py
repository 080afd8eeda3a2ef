"""The training conversation of a step, in the form of GUI-Owl (paper 2.1, figure 11) or of any other family.

A reply that is already in the family's dialect is copied; any other is rendered again, with positions in the family's
coordinate space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from trajmill.schemas.actions import Action, action_from_json, in_quotes, order_for, pressed_point, scroll_direction
from trajmill.schemas.coordinates import CoordinateFrame, native_frame
from trajmill.schemas.dialects.base import ORDERING, Dialect, NotExpressible, Reply, dialect_seen_in
from trajmill.schemas.dialects.conversation import PastStep, conversation
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.dialects.read_aloud import ROW, ReadAloud
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import SLIDER_MARK
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Step, TargetElement
from trajmill.stages.guidance.strip import quotes_guidance
from trajmill.stages.models.base import ChatRequest

PLACEHOLDERS: Final = (IMAGE_PLACEHOLDER, "<video>", "<audio>")
"""Texts that trainers read as placeholders of images."""


class StepConversation(NamedTuple):
    messages: tuple[Message, ...]
    """The last one is the reply."""
    screens: tuple[str, ...]
    """Screen ids in placeholder order; the last is the one that the reply answers."""


def family_conversation(family: Family, episode: Episode, at: int, size_of: Callable[[str], Size]) -> StepConversation:
    """Return the conversation of the step at a position, without guidance.

    `family` has the pixel budget that the model is served with (`Family.within`).

    Raises:
        NotExpressible: the family has no words for the action of this step, or of one whose reply is shown.
        ModelFailure: a screen does not fit the family's pixel budget.
    """
    platform = episode.query.platform
    dialect = family.dialect(platform)
    shown_from = 0 if family.keeps_replies else at - family.past_screens
    past = []
    for position, step in enumerate(episode.steps[:at]):
        try:
            reply, conclusion = _written(step, dialect, family.frame(size_of(step.screen_before)), platform)
        except NotExpressible:
            if position >= shown_from:
                raise
            # Only the conclusion of such a step is shown.
            reply, conclusion = step.raw_response, step.conclusion
        past.append(PastStep(step.screen_before, reply, conclusion))
    own = episode.steps[at]
    frame = family.frame(size_of(own.screen_before))
    asked = conversation(family, platform, frame, episode.query.instruction, None, past, own.screen_before)
    messages = [
        Message(role=each.role, content=each.text + (IMAGE_PLACEHOLDER if each.screen is not None else ""))
        for each in asked.messages
    ]
    answer = Message(role="assistant", content=_written(own, dialect, frame, platform)[0])
    screens = tuple(message.screen for message in asked.messages if message.screen is not None)
    return StepConversation((*messages, answer), screens)


def _written(step: Step, dialect: Dialect, frame: CoordinateFrame, platform: Platform) -> tuple[str, str]:
    if step.action is None:
        return step.raw_response, step.conclusion
    action = action_from_json(step.action)
    given = dialect.parse(step.raw_response, frame)
    if isinstance(given, Reply) and given.action == action:
        return step.raw_response, step.conclusion
    thought = "" if ROW.search(step.thought) and not isinstance(dialect, ReadAloud) else step.thought
    reply = Reply(thought, action, step.conclusion, order=_order(step, action, platform is Platform.PHONE))
    text = dialect.render(reply, frame)
    read = dialect.parse(text, frame)
    return text, read.conclusion if isinstance(read, Reply) else step.conclusion


def _order(step: Step, action: Action, touch: bool) -> str:
    """What the step did, in the imperative: the policy's own words if its dialect writes them, else by its element.

    Empty if the action needs an element, and hit none.
    """
    if dialect_seen_in(step.raw_response) in ORDERING:
        return step.conclusion
    hit, named = step.target, ""
    if hit is not None:
        named = in_quotes(hit.text) if hit.text else f"the {hit.role.replace('_', ' ')}"
        if slid := order_to_slide(hit):
            return slid
    elif pressed_point(action) is not None and not scroll_direction(action):
        return ""
    return order_for(action, named, touch=touch)


def order_to_slide(hit: TargetElement | None) -> str:
    """Return the order to drag a slider's knob to its new value; empty for other elements."""
    return f"Drag the slider to {in_quotes(hit.text)}." if hit is not None and hit.role == SLIDER_MARK else ""


def dialogue(system: str, user: str, reply: str) -> tuple[Message, Message, Message]:
    return (
        Message(role="system", content=system),
        Message(role="user", content=user),
        Message(role="assistant", content=reply),
    )


def about(request: ChatRequest, episode: Episode, step: Step | None = None) -> ChatRequest:
    index = None if step is None else step.index
    return replace(request, trajectory_id=episode.trajectory.trajectory_id, step_index=index)


def prompt_messages(dialect: Dialect, step: Step, frame: CoordinateFrame) -> tuple[Message, Message]:
    """Return the system and the user message; the stored prompt has no guidance, and the real history."""
    system = Message(role="system", content=dialect.system_prompt(frame))
    return system, Message(role="user", content=step.prompt + IMAGE_PLACEHOLDER)


def step_messages(episode: Episode, step: Step, size: Size, thought: str | None = None) -> tuple[Message, ...] | str:
    """Return the conversation of a parsed step in GUI-Owl's form, or the reason for having none.

    The reply is rendered again from thought, action and conclusion, with positions in pixels of the stored screenshot;
    it must read back as the same action. A given `thought` replaces the step's own.
    """
    dialect, frame = ANY.dialect(episode.query.platform), native_frame(size)
    action = action_from_json(step.action or "")
    own = "" if ROW.search(step.thought) else step.thought
    try:
        reply = dialect.render(Reply(own if thought is None else thought, action, step.conclusion), frame)
    except ValueError:
        return "not_round_trip"
    read = dialect.parse(reply, frame)
    if not isinstance(read, Reply) or read.action != action:
        return "not_round_trip"
    reason = unfit_text(step.prompt, step, reply, episode.guidance)
    return reason or (*prompt_messages(dialect, step, frame), Message(role="assistant", content=reply))


def holds_placeholder(texts: Iterable[str]) -> bool:
    """Return whether a trainer would read part of a text as an image."""
    return any(placeholder in text for text in texts for placeholder in PLACEHOLDERS)


def unfit_text(prompt: str, step: Step, reply: str, guidance: str) -> str | None:
    """Return why a step cannot become a conversation of a user's text and a learned reply; None if it can.

    Any text may contain a placeholder. A guided policy may repeat its hints in its thoughts, which its history has.
    """
    if not prompt or not reply:
        return "no_prompt"
    if holds_placeholder((prompt, reply)):
        return "placeholder_in_text"
    if any(quotes_guidance(text, guidance) for text in (prompt, step.thought, step.conclusion, reply)):
        return "quotes_guidance"
    return None
