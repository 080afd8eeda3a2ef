"""A step as the conversation that is trained on: system message, the prompt that was answered, one screen.

The user message is the task and the compressed history, then the observation (paper 2.1, figure 11).
"""

from __future__ import annotations

from typing import Final

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import Dialect
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.step import Step
from trajmill.stages.guidance.strip import quotes_guidance

PLACEHOLDERS: Final = (IMAGE_PLACEHOLDER, "<video>", "<audio>")
"""What trainers of string prompts take for a placeholder."""


def prompt_messages(dialect: Dialect, step: Step, frame: CoordinateFrame) -> tuple[Message, Message]:
    """The system message and the user message of a step.

    Args:
        dialect: the step's wire format.
        step: its prompt is already without guidance; its history is what really happened.
        frame: in which the reply writes positions on the screen before the action.
    """
    system = Message(role="system", content=dialect.system_prompt(frame))
    return system, Message(role="user", content=step.prompt + IMAGE_PLACEHOLDER)


def unfit_text(step: Step, reply: str, guidance: str) -> str | None:
    """Why a step cannot stand in a conversation, None if it can.

    Text that holds a placeholder of its own, from the user, the screen or the model, would be read as an image; and a
    policy that was given hints may repeat them in its thoughts, or find them in its history.

    Args:
        step: what was said and done.
        reply: what is to be learned.
        guidance: the hints that the agent was given; empty without any.
    """
    if not step.prompt or not reply:
        return "no_prompt"
    if any(placeholder in text for placeholder in PLACEHOLDERS for text in (step.prompt, reply)):
        return "placeholder_in_text"
    if any(quotes_guidance(text, guidance) for text in (step.prompt, step.thought, step.conclusion, reply)):
        return "quotes_guidance"
    return None
