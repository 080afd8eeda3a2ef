"""Conversations in the forms that trainers want: content blocks, or one prompt with everything before the reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message

_NEXT_TURN = "<|im_end|>\n<|im_start|>{role}\n"
"""What stands between two turns of ChatML, the chat template of all families."""


def in_one_prompt(messages: Sequence[Message]) -> tuple[Message, ...]:
    """System message, one user message and the reply, which alone is to be learned.

    Trainers learn every assistant message of a row, and some refuse two in succession. So the earlier turns stand in
    the user message, divided as the chat template divides turns: the tokens are those of the whole conversation.
    """
    system, first, *later, reply = messages
    said = "".join(_NEXT_TURN.format(role=message.role) + message.content for message in later)
    return system, Message(role="user", content=first.content + said), reply


def in_strings(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Messages whose content is text with `<image>` in it."""
    return [{"role": message.role, "content": message.content} for message in messages]


def in_blocks(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages whose content is a list of blocks, each with the keys `type` and `text` alone.

    Arrow gives every block of a column the same keys, and a key `image`, even a null one, makes TRL and the Qwen
    templates take every block for an image.
    """
    return [{"role": message.role, "content": _blocks(message.content)} for message in messages]


def _blocks(content: str) -> list[dict[str, str]]:
    blocks: list[dict[str, str]] = []
    for number, text in enumerate(content.split(IMAGE_PLACEHOLDER)):
        if number:
            blocks.append({"type": "image", "text": ""})
        if text:
            blocks.append({"type": "text", "text": text})
    return blocks or [{"type": "text", "text": ""}]
