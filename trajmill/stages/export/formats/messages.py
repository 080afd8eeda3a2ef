"""Puts conversations into the forms of trainers: content blocks, or one prompt with everything before the reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message

_NEXT_TURN = "<|im_end|>\n<|im_start|>{role}\n"
"""The text between two turns of ChatML, the chat template of all families."""


def in_one_prompt(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Turn a conversation into its system message, if any, one user message and the reply, which alone is learned.

    Trainers learn every assistant message of a row, and some refuse two in succession. So the user message contains the
    earlier turns with the separators of the chat template: the tokens are those of the whole conversation.
    """
    system = tuple(messages[:1]) if messages[0].role == "system" else ()
    first, *later, reply = messages[len(system) :]
    said = "".join(_NEXT_TURN.format(role=message.role) + message.content for message in later)
    return *system, Message(role="user", content=first.content + said), reply


def in_strings(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Messages whose content is a string with `<image>` placeholders."""
    return [{"role": message.role, "content": message.content} for message in messages]


def in_blocks(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages whose content is a list of blocks, each with only the keys `type` and `text`.

    All blocks of an Arrow column have the same keys, and TRL and the Qwen templates read any block with a key `image`,
    even null, as an image.
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
