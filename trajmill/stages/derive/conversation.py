"""Makes the training conversation of a step: in GUI-Owl's form, and in the form of any other family.

In GUI-Owl's form, the user message has the task, the compressed history, then the observation (paper 2.1, figure 11).
In another family's, the messages are what its agent would have sent. A reply that is already in the family's dialect is
kept word for word; another is rendered again, with positions in the family's coordinate space.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import Dialect, NotExpressible, Reply
from trajmill.schemas.dialects.conversation import PastStep, SpokenMessage, conversation
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.step import Step
from trajmill.stages.guidance.strip import quotes_guidance


class StepConversation(NamedTuple):
    """The messages of one step in a family's form."""

    messages: tuple[Message, ...]
    """The last one is the reply."""
    screens: tuple[str, ...]
    """Screen ids in placeholder order; the last is the one that the reply answers."""


class _Written(NamedTuple):
    """A step in a family's dialect."""

    reply: str
    conclusion: str


def family_conversation(family: Family, episode: Episode, at: int, size_of: Callable[[str], Size]) -> StepConversation:
    """The conversation of a step, without guidance.

    Args:
        family: with the pixel budget that the model is served with (`Family.within`).
        episode: with all its steps, in order.
        at: position of the step in it.
        size_of: width and height of a stored screen.

    Raises:
        NotExpressible: the family has no words for the action of this step, or of one whose reply it is shown.
        ModelFailure: a screen does not fit the family's pixel budget.
    """
    platform = episode.query.platform
    dialect = family.dialect(platform)
    shown_from = 0 if family.keeps_replies else at - family.past_screens
    past = []
    for position, step in enumerate(episode.steps[:at]):
        frame = family.frame(size_of(step.screen_before))
        written = (
            _written(step, dialect, frame) if position >= shown_from else _shown_by_conclusion(step, dialect, frame)
        )
        past.append(PastStep(step.screen_before, written.reply, written.conclusion))
    own = episode.steps[at]
    frame = family.frame(size_of(own.screen_before))
    asked = conversation(family, platform, frame, episode.query.instruction, None, past, own.screen_before)
    reply = Message(role="assistant", content=_written(own, dialect, frame).reply)
    return StepConversation(
        (*(_message(message) for message in asked.messages), reply),
        tuple(message.screen for message in asked.messages if message.screen is not None),
    )


def _shown_by_conclusion(step: Step, dialect: Dialect, frame: CoordinateFrame) -> _Written:
    """A step of which only the conclusion is shown; it may have an action that the family cannot express."""
    try:
        return _written(step, dialect, frame)
    except NotExpressible:
        return _Written(step.raw_response, step.conclusion)


def _written(step: Step, dialect: Dialect, frame: CoordinateFrame) -> _Written:
    if step.action is None:
        return _Written(step.raw_response, step.conclusion)
    action = action_from_json(step.action)
    given = dialect.parse(step.raw_response, frame)
    if isinstance(given, Reply) and given.action == action:
        return _Written(step.raw_response, step.conclusion)
    text = dialect.render(Reply(step.thought, action, step.conclusion), frame)
    read = dialect.parse(text, frame)
    return _Written(text, read.conclusion if isinstance(read, Reply) else step.conclusion)


def _message(message: SpokenMessage[str]) -> Message:
    placeholder = IMAGE_PLACEHOLDER if message.screen is not None else ""
    return Message(role=message.role, content=message.text + placeholder)


PLACEHOLDERS: Final = (IMAGE_PLACEHOLDER, "<video>", "<audio>")
"""Texts that trainers read as placeholders of images."""


def prompt_messages(dialect: Dialect, step: Step, frame: CoordinateFrame) -> tuple[Message, Message]:
    """The system message and the user message of a step.

    Args:
        dialect: the step's wire format.
        step: its stored prompt has no guidance, and its history is what really happened.
        frame: the coordinates of the reply, on the screen before the action.
    """
    system = Message(role="system", content=dialect.system_prompt(frame))
    return system, Message(role="user", content=step.prompt + IMAGE_PLACEHOLDER)


def rendered(reply: Reply, dialect: Dialect, frame: CoordinateFrame) -> str | None:
    """The text of a reply; None if the dialect cannot express it, or if reading it gives another action."""
    try:
        text = dialect.render(reply, frame)
    except ValueError:
        return None
    read = dialect.parse(text, frame)
    return text if isinstance(read, Reply) and read.action == reply.action else None


def unfit_text(step: Step, reply: str, guidance: str) -> str | None:
    """Why a step cannot become a conversation; None if it can.

    Text of the user, the screen or the model may contain a placeholder, which a trainer would read as an image. A
    policy that was given hints may repeat them in its thoughts, and they then stand in its history.

    Args:
        step: the stored step.
        reply: the text that is learned.
        guidance: the hints that the agent was given; empty without any.
    """
    if not step.prompt or not reply:
        return "no_prompt"
    if any(placeholder in text for placeholder in PLACEHOLDERS for text in (step.prompt, reply)):
        return "placeholder_in_text"
    if any(quotes_guidance(text, guidance) for text in (step.prompt, step.thought, step.conclusion, reply)):
        return "quotes_guidance"
    return None
