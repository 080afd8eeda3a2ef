"""Chat messages as they stand on a `model_calls` row: screens by id, never by pixels."""

from __future__ import annotations

import json

from stages.models.base import ChatMessage


def messages_to_json(messages: tuple[ChatMessage, ...]) -> str:
    """Compact JSON of messages; an observation becomes `{"screen": id}`."""
    return json.dumps(
        [
            {
                "role": message.role,
                "content": [
                    part if isinstance(part, str) else {"screen": part.screen.screen_id} for part in message.parts
                ],
            }
            for message in messages
        ],
        separators=(",", ":"),
        ensure_ascii=False,
    )
