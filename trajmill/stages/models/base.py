"""The protocol of chat models, and its records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final, NamedTuple, Protocol

from pydantic import Field

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import Record


class ContextBudget(Record):
    screens: int = Field(default=24, ge=2)
    """Most screens in a request, as images or as captions."""
    tokens: int = Field(default=24_000, ge=1)
    """Most tokens of text and images together, as estimated here; the answer does not count."""


USUAL_BUDGET: Final = ContextBudget()
"""Leaves room for the answer in a context of 32 k tokens."""


MessagePart = str | Observation | ScreenHandle
"""Text; a screen, of which a model reads the pixels or the accessibility tree; or an image, such as a screenshot with
a marked action."""


def screen_of(part: Observation | ScreenHandle) -> ScreenHandle:
    return part.screen if isinstance(part, Observation) else part


class ChatMessage(NamedTuple):
    role: str
    """`system`, `user` or `assistant`."""
    parts: tuple[MessagePart, ...]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    role: str
    """The role in the configuration: policy, critic.text, writer, ..."""
    messages: tuple[ChatMessage, ...]
    temperature: float = 0.0
    """0 decodes greedily."""
    seed: int = 0
    """Equal requests with equal seeds get equal answers from a local model."""
    max_tokens: int = 512
    top_p: float = 1.0
    n: int = 1
    top_logprobs: int = 0
    """Number of candidates whose log probabilities are given for each token of the answer; 0 gives none."""
    with_tokens: bool = False
    """Whether the ids of the answer's tokens and their log probabilities are given."""
    answer_schema: str = ""
    """JSON schema that the answer must follow, as JSON; empty for free text."""
    image_scale: float = 1.0
    """Factor for width and height of images, applied before the model's pixel budget; below 1 in a cheap pass."""
    trajectory_id: str | None = None
    """The trajectory of the call; it does not change the answer."""
    step_index: int | None = None
    draws: tuple[int, ...] = ()
    """For votes, the draw of each sample. They do not change the answer, because `seed` has the first one."""

    def sample(self, number: int) -> ChatRequest:
        """Return the request of one of its samples, whose seed is `seed` plus its number, as in vLLM."""
        return replace(self, n=1, seed=self.seed + number, draws=self.draws[number : number + 1])


MOST_SEED: Final = 2**63
"""vLLM and other servers store a seed as a signed integer of 64 bits."""


class TokenLogprob(NamedTuple):
    token: str
    logprob: float
    """Natural logarithm of its probability."""
    candidates: tuple[tuple[str, float], ...] = ()
    """The most likely tokens at its position with their log probabilities."""


class ReplyTokens(NamedTuple):
    """The tokens of an answer; both fields are equally long."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Natural logarithms of their probabilities, as the server reports them."""


TokenCount = Annotated[int, Field(ge=0, lt=2**31)]
"""Tokens of one request or answer; a larger count is a mistake of the server."""


class Completion(NamedTuple):
    text: str
    input_tokens: TokenCount
    output_tokens: TokenCount
    finish_reason: str
    """`stop`, or `length` if `max_tokens` cut the answer."""
    others: tuple[str, ...] = ()
    """The other samples, if more than one was asked for."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """The tokens of `text`, if they were asked for."""
    price: float = 0.0
    """In the currency of the configuration; 0 for a local model and for an answer from the cache."""
    cached: bool = False
    """Whether the answer comes from the request cache, so that nothing was computed for it."""
    tokens: ReplyTokens | None = None
    """The token ids of `text`, if they were asked for and the server gave them."""


class ChatModel(Protocol):
    @property
    def version(self) -> str:
        """Identifies the weights; every row that the model makes stores it."""

    def frame(self, screen: Size) -> CoordinateFrame:
        """Return how the model writes positions on a screenshot of that size."""

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request. Raises ModelFailure if the model gave no answer."""

    async def close(self) -> None:
        """Free connections and weights; closing twice is fine."""


async def forget_answer(model: ChatModel, request: ChatRequest) -> None:
    """Remove an invalid answer from the cache of a model that has one (`forget`)."""
    forget = getattr(model, "forget", None)
    if forget is not None:
        await forget(request)


def gives_several(model: ChatModel) -> bool:
    """Return whether a model reads a prompt once for all `n` samples of a request."""
    return bool(getattr(model, "several_answers", False))
