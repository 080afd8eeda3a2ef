"""Turns a stored call of a role into the conversation that is learned."""

from __future__ import annotations

import json
from typing import NamedTuple

from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.derive.conversation import PLACEHOLDERS
from trajmill.stages.guidance.strip import quotes_guidance, without_guidance

_OTHER_CALLERS = ("policy", "explorer", "writer", "describer", "proposer")
_CRITIC = "critic"


class SpokenCall(NamedTuple):
    """The messages of a call with its answer, and the screens in the order of their placeholders."""

    messages: tuple[Message, ...]
    screens: tuple[str, ...]


def is_of_role(call: ModelCall) -> bool:
    """Whether a role of an agent was asked, not an agent of one model, a critic or a writer."""
    return not call.role.startswith(_CRITIC) and call.role not in _OTHER_CALLERS


def spoken(call: ModelCall, guidance: str) -> SpokenCall | str:
    """The conversation of a call without guidance, or the reason why it cannot be learned.

    Args:
        call: as it is stored.
        guidance: the hints that the agent was given; empty without any.
    """
    if call.error is not None or not call.response:
        return "no_answer"
    if call.malformed is not None:
        return "malformed"
    messages, screens, texts = [], [], [call.response]
    for message in json.loads(call.messages):
        content = ""
        for part in message["content"]:
            if isinstance(part, str):
                texts.append(without_guidance(part, guidance))
                content += texts[-1]
            else:
                content += IMAGE_PLACEHOLDER
                screens.append(part["screen"])
        messages.append(Message(role=message["role"], content=content))
    if any(placeholder in text for placeholder in PLACEHOLDERS for text in texts):
        return "placeholder_in_text"
    if any(quotes_guidance(text, guidance) for text in texts):
        return "quotes_guidance"
    return SpokenCall((*messages, Message(role="assistant", content=call.response)), tuple(screens))
