"""A chat model that answers from a script, for tests of what stands around a model."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion


def request(text: str = "What is it?", role: str = "critic.text", **fields: object) -> ChatRequest:
    return ChatRequest(role, (ChatMessage("user", (text,)),), **fields)  # type: ignore[arg-type]


@dataclass
class ScriptedModel:
    """Answers by a function of the request; remembers what it was asked."""

    answer: Callable[[ChatRequest], str | Completion | ModelFailure]
    version: str = "scripted-1"
    asked: list[ChatRequest] = field(default_factory=list)
    closed: int = 0
    family: Family = ANY
    """As whose model it writes positions."""

    def frame(self, screen: Size) -> CoordinateFrame:
        return self.family.frame(screen)

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        await asyncio.sleep(0)
        answer = self.answer(request)
        if isinstance(answer, ModelFailure):
            raise answer
        return Completion(answer, 7, 3, "stop", price=0.5) if isinstance(answer, str) else answer

    async def close(self) -> None:
        self.closed += 1


def replies(*texts: str | Completion | ModelFailure) -> ScriptedModel:
    """A model that gives one answer after the other, and the last one for ever."""
    rest = list(texts)
    return ScriptedModel(lambda _: rest.pop(0) if len(rest) > 1 else rest[0])


@dataclass
class SeveralModel(ScriptedModel):
    """Says that it gives several samples in one request."""

    several_answers: bool = True
