"""Writes chat messages as a `model_calls` row stores them: screens are ids, without pixels."""

from __future__ import annotations

import json

from trajmill.schemas.observation import Observation
from trajmill.schemas.storable import storable
from trajmill.stages.models.base import ChatMessage, MessagePart


def messages_to_json(messages: tuple[ChatMessage, ...]) -> str:
    """Compact JSON of messages that can be stored; an observation or an image becomes `{"screen": id}`."""
    return json.dumps(
        [
            {
                "role": storable(message.role),
                "content": [_content(part) for part in message.parts],
            }
            for message in messages
        ],
        separators=(",", ":"),
        ensure_ascii=False,
    )


def screen_id_of(part: MessagePart) -> str | None:
    """The content id of a part's screen; None for text."""
    if isinstance(part, str):
        return None
    return part.screen.screen_id if isinstance(part, Observation) else part.screen_id


def _content(part: MessagePart) -> str | dict[str, str | None]:
    return storable(part) if isinstance(part, str) else {"screen": screen_id_of(part)}
