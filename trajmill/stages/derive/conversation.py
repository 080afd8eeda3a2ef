"""Makes the training conversation of a step: the system message, the prompt that was answered, one screen.

The user message has the task, the compressed history, then the observation (paper 2.1, figure 11).
"""

from __future__ import annotations

from typing import Final

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import Dialect, Reply
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.step import Step
from trajmill.stages.guidance.strip import quotes_guidance

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
