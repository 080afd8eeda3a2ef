"""Parses the body of an HTTP answer, which is not trusted, as a `Completion`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from trajmill.stages.models.base import MOST_TOKENS, Completion, ReplyTokens, TokenLogprob


class FailureReason(StrEnum):
    """Why an attempt gave no answer; it decides what the client does next."""

    UNREACHABLE = "unreachable"
    """No connection: the server gets no requests for a while, and another one is asked at once."""
    BROKEN = "broken"
    """The connection was cut or timed out, or the server had an internal error."""
    BUSY = "busy"
    """429 or 503: the server gets fewer requests at a time."""
    GARBAGE = "garbage"
    """The answer is not usable: it is not the protocol's JSON, or has no choice or no text."""
    REFUSED = "refused"
    """The server refuses the request (context too long, unknown model, bad key): it is not sent again."""


class ExchangeFailure(Exception):
    """One attempt failed; this error does not leave the package."""

    def __init__(self, reason: FailureReason, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after


def one_line(text: str, most: int = 200) -> str:
    """Any text of a server as one line of at most `most` characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 3] + "..."


_WHOLE = frozenset({"stop", "length"})
"""Finish reasons of a usable answer: the model ended it, or `max_tokens` cut it. With other reasons (`abort`, `error`,
`content_filter`) the model gave no answer."""


_Count = Annotated[int, Field(ge=0, le=MOST_TOKENS)]


class _Candidate(BaseModel):
    token: str
    logprob: FiniteFloat


class _Token(_Candidate):
    top_logprobs: list[_Candidate] = []


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    index: int = 0
    token_ids: list[_Count] | None = None
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Usage(BaseModel):
    prompt_tokens: _Count = 0
    completion_tokens: _Count | None = None


class _Answer(BaseModel):
    choices: list[_Choice]
    usage: _Usage | None = None


class _Model(BaseModel):
    id: str


class _Models(BaseModel):
    data: list[_Model]


class _Embedding(BaseModel):
    index: int
    embedding: Annotated[tuple[FiniteFloat, ...], Field(min_length=1)]


class _Embeddings(BaseModel):
    data: list[_Embedding]


class _ErrorBody(BaseModel):
    message: str


class _ErrorAnswer(BaseModel):
    error: _ErrorBody | str | None = None
    message: str | None = None
    detail: str | None = None


def completion(body: bytes, samples: int, input_price: float, output_price: float) -> Completion:
    """Parse a server's answer to a request for `samples` samples; prices are per million tokens.

    If there are several samples, one that the server aborted is empty, and if the server gave fewer, the last ones are
    missing.

    Raises:
        ExchangeFailure: the body has no usable answer (`FailureReason.GARBAGE`).
    """
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError as error:
        raise _garbage(f"an answer that is not the protocol's ({_first(error)})") from None
    choices = sorted(answer.choices, key=lambda choice: choice.index)
    if not 0 < len(choices) <= samples:
        raise _garbage(f"{len(choices)} choices where {samples} were asked for")
    whole = [choice.finish_reason in _WHOLE and choice.message.content is not None for choice in choices]
    if not any(whole):
        ended = one_line(str(choices[0].finish_reason), 40)
        is_cut = choices[0].finish_reason not in _WHOLE
        raise _garbage(f"an answer that ended with {ended}" if is_cut else "a choice without text")
    texts = [(choice.message.content or "") if usable else "" for choice, usable in zip(choices, whole, strict=True)]
    usage = answer.usage or _Usage()
    generated = usage.completion_tokens or 0
    scored = choices[0].logprobs.content if choices[0].logprobs else None
    ids = choices[0].token_ids
    if ids is not None and scored is not None and len(ids) != len(scored):
        raise _garbage(f"{len(scored)} log probabilities for {len(ids)} tokens")
    return Completion(
        text=texts[0],
        input_tokens=usage.prompt_tokens,
        output_tokens=generated,
        finish_reason=choices[0].finish_reason or "",
        others=tuple(texts[1:]),
        logprobs=tuple(
            TokenLogprob(each.token, each.logprob, tuple((other.token, other.logprob) for other in each.top_logprobs))
            for each in scored or []
        ),
        price=(usage.prompt_tokens * input_price + generated * output_price) / 1e6,
        tokens=None
        if ids is None or scored is None
        else ReplyTokens(tuple(ids), tuple(each.logprob for each in scored)),
    )


def embeddings(body: bytes, texts: int) -> list[tuple[float, ...]]:
    """The vectors in an answer to `POST /embeddings` for so many texts, in their order.

    Raises:
        ExchangeFailure: the body has no vector for each text, or vectors of several lengths (`FailureReason.GARBAGE`).
    """
    try:
        found = sorted(_Embeddings.model_validate_json(body).data, key=lambda each: each.index)
    except ValidationError as error:
        raise _garbage(f"an answer that is not the protocol's ({_first(error)})") from None
    if [each.index for each in found] != list(range(texts)) or len({len(each.embedding) for each in found}) != 1:
        raise _garbage(f"no equally long vectors for {texts} texts")
    return [each.embedding for each in found]


def model_names(body: bytes) -> tuple[str, ...] | None:
    """The model names in the answer to `GET /models`; None if the body is no such answer."""
    try:
        return tuple(model.id for model in _Models.model_validate_json(body).data)
    except ValidationError:
        return None


def error_message(body: bytes) -> str:
    """The message of an error answer, as one short line."""
    try:
        answer = _ErrorAnswer.model_validate_json(body)
    except ValidationError:
        return one_line(body.decode(errors="replace"))
    inner = answer.error.message if isinstance(answer.error, _ErrorBody) else answer.error
    return one_line(inner or answer.message or answer.detail or "")


def _garbage(message: str) -> ExchangeFailure:
    return ExchangeFailure(FailureReason.GARBAGE, message)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return one_line(f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip(), 120)
