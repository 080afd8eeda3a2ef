"""The protocol between whoever asks and whatever model answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from schemas.observation import Observation

Part = str | Observation
"""Text, or a screen: a model takes from it what it can read, the pixels or the accessibility tree."""


class ChatMessage(NamedTuple):
    """One message of a chat."""

    role: str
    """system, user or assistant."""
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request to a model."""

    role: str
    """Role in the configuration that the request is made for: policy, critic.text, writer, ..."""
    messages: tuple[ChatMessage, ...]
    temperature: float = 0.0
    """0 decodes greedily."""
    seed: int = 0
    """Equal requests with equal seeds get equal answers from a local model."""
    max_tokens: int = 512


class Completion(NamedTuple):
    """A model's answer."""

    text: str
    input_tokens: int
    output_tokens: int
    finish_reason: str
    """`stop`, or `length` when `max_tokens` cut it."""


class ChatModel(Protocol):
    """Anything that answers chats."""

    @property
    def version(self) -> str:
        """Identifies the weights; stands on every row the model makes."""
        ...

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request.

        Raises:
            schemas.errors.ModelFailure: no answer within the model's bounds.
        """
        ...
