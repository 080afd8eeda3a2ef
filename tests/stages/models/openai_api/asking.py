"""Specs and requests of the client's tests, and one call from start to end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, Completion, MessagePart
from trajmill.stages.models.openai_api.spec import OpenAiSpec

_T = TypeVar("_T")

VARIABLES = {"KEY": "k-1"}
"""Environment variables that keys are looked for in."""


def settings(*urls: str, **changed: Any) -> OpenAiSpec:
    """A spec with waits too short to notice."""
    quick = {"first_wait_seconds": 0.001, "longest_wait_seconds": 5.0, "connect_seconds": 5.0}
    return OpenAiSpec(urls=urls, model="tiny", **(quick | changed))


def request(*parts: MessagePart, **changed: Any) -> ChatRequest:
    return ChatRequest("policy", (ChatMessage("user", parts or ("Hello",)),), **changed)


def asked(client: OpenAiSpec, chat: ChatRequest | None = None) -> Completion:
    """One call in an event loop of its own."""
    model = client.connect(VARIABLES)
    return asyncio.run(_closing(model, model.complete(chat or request())))


def asked_all(client: OpenAiSpec, chats: Sequence[ChatRequest]) -> list[Completion | BaseException]:
    """Calls at the same time."""
    model = client.connect(VARIABLES)

    async def run() -> list[Completion | BaseException]:
        return await asyncio.gather(*map(model.complete, chats), return_exceptions=True)

    return asyncio.run(_closing(model, run()))


async def _closing(model: ChatModel, call: Coroutine[Any, Any, _T]) -> _T:
    try:
        return await call
    finally:
        await model.close()
        await model.close()
