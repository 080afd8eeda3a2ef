import asyncio
from collections.abc import Sequence
from typing import Any

from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion, MessagePart
from trajmill.stages.models.openai_api.spec import OpenAiSpec

VARIABLES = {"KEY": "k-1"}


def settings(*urls: str, **changed: Any) -> OpenAiSpec:
    """A spec with waits too short to notice."""
    quick = {"first_wait_seconds": 0.001, "longest_wait_seconds": 5.0, "connect_seconds": 5.0}
    return OpenAiSpec(urls=urls, model="tiny", **(quick | changed))


def request(*parts: MessagePart, **changed: Any) -> ChatRequest:
    return ChatRequest("policy", (ChatMessage("user", parts or ("Hello",)),), **changed)


async def asked(client: OpenAiSpec, chat: ChatRequest | None = None) -> Completion:
    (answer,) = await asked_all(client, [chat or request()])
    if isinstance(answer, BaseException):
        raise answer
    return answer


async def asked_all(client: OpenAiSpec, chats: Sequence[ChatRequest]) -> list[Completion | BaseException]:
    """Calls at the same time, by a client of their own."""
    model = client.connect(VARIABLES)
    try:
        return await asyncio.gather(*map(model.complete, chats), return_exceptions=True)
    finally:
        await model.close()
        await model.close()
