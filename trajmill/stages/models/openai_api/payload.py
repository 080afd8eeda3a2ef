"""Makes the body of a chat completion call."""

from __future__ import annotations

import json
from typing import Any

from trajmill.schemas.observation import Observation
from trajmill.schemas.pixel_budget import PixelBudget
from trajmill.stages.models.base import ChatMessage, ChatRequest, MessagePart
from trajmill.stages.models.images import sent_image

_SEEDS = 2**63
"""Servers store a seed as a signed integer of 64 bits."""


def has_pictures(request: ChatRequest) -> bool:
    """Whether the request has images, which take time to decode and encode."""
    return any(not isinstance(part, str) for message in request.messages for part in message.parts)


def request_body(request: ChatRequest, model: str, budget: PixelBudget) -> bytes:
    """JSON of a request, screens as data URLs within `budget`.

    Raises:
        ModelFailure: an image does not decode.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message, budget, request.image_scale) for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed % _SEEDS,
        "n": request.n,
    }
    if request.with_tokens:
        body |= {"logprobs": True, "return_token_ids": True}
    if request.top_logprobs:
        body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    if request.answer_schema:
        schema = {"name": "answer", "schema": json.loads(request.answer_schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return json.dumps(body, separators=(",", ":")).encode()


def _message(message: ChatMessage, budget: PixelBudget, scale: float) -> dict[str, Any]:
    if len(message.parts) == 1 and isinstance(message.parts[0], str):
        return {"role": message.role, "content": message.parts[0]}
    return {"role": message.role, "content": [_block(part, budget, scale) for part in message.parts]}


def _block(part: MessagePart, budget: PixelBudget, scale: float) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    screen = part.screen if isinstance(part, Observation) else part
    return {"type": "image_url", "image_url": {"url": sent_image(screen, budget, scale).data_url}}
