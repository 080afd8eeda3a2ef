"""Message layouts of trainers: strings with placeholders, content blocks, or one prompt before the reply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message

STRING_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
BLOCK = pa.struct([("type", pa.string()), ("text", pa.string())])
"""A content block. All blocks of an Arrow column have the same keys, and TRL and the Qwen templates read any block with
a key `image`, even null, as an image; the text of an image block is empty, not null."""
BLOCK_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(BLOCK))]))

_NEXT_TURN = "<|im_end|>\n<|im_start|>{role}\n"
"""The text between two turns of ChatML, the chat template of all families."""


def in_one_prompt(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Join the earlier turns into one user message between the system message, if any, and the reply.

    Trainers learn every assistant message of a row, and some refuse two in succession. The user message contains the
    separators of the chat template, so the tokens are those of the whole conversation.
    """
    system = tuple(messages[:1]) if messages[0].role == "system" else ()
    first, *later, reply = messages[len(system) :]
    turns = "".join(_NEXT_TURN.format(role=message.role) + message.content for message in later)
    return *system, Message(role="user", content=first.content + turns), reply


def in_strings(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def in_blocks(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [{"role": message.role, "content": content_blocks(message.content)} for message in messages]


def content_blocks(content: str) -> list[dict[str, str]]:
    """Split a text at its placeholders; an empty text gives one empty text block."""
    blocks: list[dict[str, str]] = []
    for number, text in enumerate(content.split(IMAGE_PLACEHOLDER)):
        if number:
            blocks.append({"type": "image", "text": ""})
        if text:
            blocks.append({"type": "text", "text": text})
    return blocks or [{"type": "text", "text": ""}]


def check_placeholders(row_ids: pa.Array, messages: Iterable[Sequence[dict[str, str]]], screens: pa.ListArray) -> None:
    """Raise BadInputError for the first row whose messages have not one placeholder for each screen."""
    for row_id, row, shown in zip(row_ids, messages, screens, strict=True):
        if sum(message["content"].count(IMAGE_PLACEHOLDER) for message in row) != len(shown):
            raise BadInputError(
                f"row {row_id.as_py()}: {len(shown)} screens do not match its {IMAGE_PLACEHOLDER} placeholders; "
                "derive the round again"
            )
