"""The protocol of chat models, and its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle

MessagePart = str | Observation | ScreenHandle
"""Text; or a screen, of which a model reads the pixels or the accessibility tree; or a picture alone, such as a
screenshot with an action marked on it."""


class ChatMessage(NamedTuple):
    """One message of a chat."""

    role: str
    """system, user or assistant."""
    parts: tuple[MessagePart, ...]


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
    top_p: float = 1.0
    n: int = 1
    """Samples asked for in one request."""
    top_logprobs: int = 0
    """For each token of the answer, the log probabilities of so many candidates; 0 asks for none."""
    with_tokens: bool = False
    """Whether the ids of the answer's tokens and their log probabilities are asked for."""
    answer_schema: str = ""
    """JSON schema that the answer must follow, as JSON; empty for free text."""
    image_scale: float = 1.0
    """Factor on the sides of images, applied before the model's pixel budget; under 1 in a cheap pass."""
    trajectory_id: str | None = None
    """The trajectory that the call is made for; it does not change the answer."""
    step_index: int | None = None
    draws: tuple[int, ...] = ()
    """The draw of each sample where votes are asked for. They do not change the answer: `seed` holds the first."""


class TokenLogprob(NamedTuple):
    """A token of an answer and how likely it was."""

    token: str
    logprob: float
    """Natural logarithm of its probability."""
    candidates: tuple[tuple[str, float], ...] = ()
    """The most likely tokens at its place with their log probabilities."""


class ReplyTokens(NamedTuple):
    """The tokens of an answer, as many of each."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Natural logarithms of their probabilities, as the server counts them."""


class Completion(NamedTuple):
    """A model's answer."""

    text: str
    input_tokens: int
    output_tokens: int
    finish_reason: str
    """`stop`, or `length` when `max_tokens` cut it."""
    others: tuple[str, ...] = ()
    """The other samples where more than one was asked for."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """The tokens of `text`, where they were asked for."""
    price: float = 0.0
    """In the currency of the configuration; 0 for a local model and for an answer from the cache."""
    cached: bool = False
    """Whether the answer comes from the request cache, so that nothing was computed for it."""
    tokens: ReplyTokens | None = None
    """Of `text`, where they were asked for and the server gave them."""


class ChatModel(Protocol):
    """Anything that answers chats."""

    @property
    def version(self) -> str:
        """Identifies the weights; every row that the model makes stores it."""
        ...

    def frame(self, screen: Size) -> CoordinateFrame:
        """How the model writes positions on a screenshot of that size."""
        ...

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request.

        Raises:
            ModelFailure: no answer within the model's bounds.
        """
        ...

    async def close(self) -> None:
        """Free connections and weights; closing twice is fine."""
        ...


@runtime_checkable
class SeveralAnswers(Protocol):
    """A `ChatModel` that says whether it gives several samples in one request."""

    @property
    def several_answers(self) -> bool:
        """Whether the prompt of a request is read once for all its `n` samples."""
        ...


def gives_several(model: ChatModel) -> bool:
    """Whether one request may ask a model for several samples."""
    return isinstance(model, SeveralAnswers) and model.several_answers
