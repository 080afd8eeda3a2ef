"""Chat messages as they stand on a `model_calls` row: screens by id, never by pixels."""

from __future__ import annotations

import json

from schemas.observation import Observation
from stages.models.base import ChatMessage, Part


def messages_to_json(messages: tuple[ChatMessage, ...]) -> str:
    """Compact JSON of messages; an observation or a picture becomes `{"screen": id}`."""
    return json.dumps(
        [
            {
                "role": message.role,
                "content": [_content(part) for part in message.parts],
            }
            for message in messages
        ],
        separators=(",", ":"),
        ensure_ascii=False,
    )


def _content(part: Part) -> str | dict[str, str]:
    if isinstance(part, str):
        return part
    return {"screen": part.screen.screen_id if isinstance(part, Observation) else part.screen_id}
