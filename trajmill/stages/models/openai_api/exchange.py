"""Sends one HTTP request to one server, reads an answer of bounded size, and names what went wrong."""

from __future__ import annotations

import asyncio
import io
import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Annotated, Final, Generic, TypeVar
from urllib.parse import urlsplit

import aiohttp
from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.secrets import Secrets
from trajmill.schemas.text import one_line, printable
from trajmill.stages.models.base import Completion, ReplyTokens, TokenCount, TokenLogprob
from trajmill.stages.models.openai_api.spec import OpenAiSpec

MOST_BYTES: Final = 8 * 2**20
"""Largest answer in bytes: several times the longest sensible answer with log probabilities."""
_KEEP_SECONDS = 4.0
"""Seconds after which an idle connection is closed. The server of vLLM (uvicorn) closes it after five; a request sent
later would fail."""
_LARGE_BYTES = 2**20
"""Bytes. A larger body is written in pieces, so that the event loop can do other work in between."""
_BUSY = frozenset({429, 503})
_PASSING = frozenset({408, 425})
"""Answers below 500 after which the same request may succeed."""
_LISTING_SECONDS = 10.0
"""Time limit for the list of models, which a server gives at once."""


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


def open_session(spec: OpenAiSpec, api_key: str) -> aiohttp.ClientSession:
    """Open an HTTP client in the running event loop. It sets no bound on connections; the router does.

    It ignores the environment's proxies, stores no cookies and follows no redirect, because each of these could send
    screens to another place than the server that the configuration names.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Content-Type": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {}),
        timeout=aiohttp.ClientTimeout(
            total=spec.total_seconds, sock_connect=spec.connect_seconds, sock_read=spec.read_seconds
        ),
    )


async def exchange(
    session: aiohttp.ClientSession, secrets: Secrets, method: str, url: str, body: bytes | None = None
) -> bytes:
    """Send a request and read the body of its answer, without the keys that the server echoes in it or in an error.

    Raises ExchangeFailure without a connection, for a time-out, an error status, or more than `MOST_BYTES`.
    """

    def reason(error: Exception) -> str:
        return server_text(secrets.scrub(str(error)), 120) or type(error).__name__

    data = io.BytesIO(body) if body is not None and len(body) > _LARGE_BYTES else body
    try:
        async with session.request(method, url, data=data, allow_redirects=False) as response:
            received = secrets.scrub_bytes(await _bounded(response))
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise ExchangeFailure(FailureReason.UNREACHABLE, f"no connection ({reason(error)})") from None
    except TimeoutError:
        raise ExchangeFailure(FailureReason.BROKEN, "timed out before the whole answer was there") from None
    except aiohttp.InvalidURL:
        raise ExchangeFailure(FailureReason.REFUSED, "not a URL") from None
    except (aiohttp.ClientError, OSError) as error:
        raise ExchangeFailure(FailureReason.BROKEN, f"connection cut ({reason(error)})") from None
    status, headers = response.status, response.headers
    if status == 200:
        return received
    message = f"{status} {error_message(received)}".strip()
    wait = retry_after_seconds(headers.get("Retry-After"), headers.get("Date"))
    if status in _BUSY:
        raise ExchangeFailure(FailureReason.BUSY, message, wait)
    if status >= 500 or status in _PASSING:
        raise ExchangeFailure(FailureReason.BROKEN, message, wait)
    raise ExchangeFailure(FailureReason.REFUSED, message)


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            response.close()
            raise ExchangeFailure(FailureReason.REFUSED, f"an answer of more than {MOST_BYTES // 2**20} MiB")
    return b"".join(parts)


def retry_after_seconds(value: str | None, date: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header (RFC 9110, 10.2.3); None without a readable header.

    A date in it is compared with the answer's own `Date`, because clocks may differ.
    """
    if value and value.strip().isascii() and value.strip().isdigit():
        return float(value)
    until = _moment(value or "")
    return None if until is None else max(0.0, (until - (_moment(date or "") or datetime.now(UTC))).total_seconds())


def _moment(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def backoff_seconds(attempt: int, first: float, longest: float) -> float:
    """Return the wait after a failed attempt (counted from 1); doubled each time, and half of it is random.

    The random part has no seed, because callers that were refused together must not return together.
    """
    return float(min(longest, first * 2.0 ** min(attempt - 1, 30)) * random.uniform(0.5, 1.0))


async def reason_for_no_answer(session: aiohttp.ClientSession, secrets: Secrets, url: str, model: str) -> str | None:
    """Return why a server does not answer; None if it answers and serves the model.

    Raises BadInputError if it answers, but does not serve the model, refuses the key, or is something else.
    """
    try:
        names = [each.id for each in _List[_Model].model_validate_json(await _listing(session, secrets, url)).data]
    except ValidationError:
        raise BadInputError(f"{shown(url)}: no OpenAI-compatible server; check that the URL ends in /v1") from None
    except ExchangeFailure as failure:
        if failure.reason is not FailureReason.REFUSED:
            return f"{shown(url)}: {failure}"
        hint = "check the API key, and that the URL ends in /v1"
        raise BadInputError(f"{shown(url)}/models: {failure}; {hint}") from None
    if model not in names:
        known = ", ".join(repr(name) for name in names[:5]) or "none"
        raise BadInputError(f"{shown(url)}: no model {model!r}; it serves {known}: name one of them")
    return None


async def is_there(session: aiohttp.ClientSession, secrets: Secrets, url: str) -> bool:
    """Return whether a server answers at all; a refusal counts as an answer."""
    try:
        await _listing(session, secrets, url)
    except ExchangeFailure as failure:
        return failure.reason is FailureReason.REFUSED
    return True


async def _listing(session: aiohttp.ClientSession, secrets: Secrets, url: str) -> bytes:
    try:
        async with asyncio.timeout(_LISTING_SECONDS):
            return await exchange(session, secrets, "GET", under(url, "models"))
    except TimeoutError:
        raise ExchangeFailure(FailureReason.BROKEN, f"no answer within {_LISTING_SECONDS:.0f} s") from None


def under(url: str, path: str) -> str:
    return f"{url.rstrip('/')}/{path}"


def shown(url: str) -> str:
    """Return a base URL for a message: without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")


def server_text(text: str, most: int = 200) -> str:
    """Return any text of a server as one line of at most `most` characters."""
    return one_line(printable(text[: 4 * most]), most)


_WHOLE = frozenset({"stop", "length"})
"""Finish reasons of a usable answer: the model ended it, or `max_tokens` cut it. With other reasons (`abort`, `error`,
`content_filter`) the model gave no answer."""

T = TypeVar("T")


class _Candidate(BaseModel):
    token: str
    logprob: FiniteFloat


class _Token(_Candidate):
    top_logprobs: list[_Candidate] = []


class _Content(BaseModel, Generic[T]):
    content: T | None = None


class _Choice(BaseModel):
    index: int = 0
    token_ids: list[TokenCount] | None = None
    message: _Content[str]
    finish_reason: str | None = None
    logprobs: _Content[list[_Token]] | None = None


class _Usage(BaseModel):
    prompt_tokens: TokenCount = 0
    completion_tokens: TokenCount | None = None


class _Answer(BaseModel):
    choices: list[_Choice]
    usage: _Usage | None = None


class _Model(BaseModel):
    id: str


class _Embedding(BaseModel):
    index: int
    embedding: Annotated[tuple[FiniteFloat, ...], Field(min_length=1)]


class _List(BaseModel, Generic[T]):
    data: list[T]


class _ErrorBody(BaseModel):
    message: str


class _ErrorAnswer(BaseModel):
    error: _ErrorBody | str | None = None
    message: str | None = None
    detail: str | None = None


M = TypeVar("M", bound=BaseModel)


def _parsed(kind: type[M], body: bytes) -> M:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        line = server_text(f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip(), 120)
        raise _garbage(f"an answer that is not the protocol's ({line})") from None


def _garbage(message: str) -> ExchangeFailure:
    return ExchangeFailure(FailureReason.GARBAGE, message)


def completion(body: bytes, samples: int, input_price: float, output_price: float) -> Completion:
    """Parse a server's answer to a request for `samples` samples; prices are per million tokens.

    If there are several samples, one that the server aborted is empty, and if the server gave fewer, the last ones are
    missing. Raises ExchangeFailure if the body has no usable answer (`FailureReason.GARBAGE`).
    """
    answer = _parsed(_Answer, body)
    choices = sorted(answer.choices, key=lambda choice: choice.index)
    if not 0 < len(choices) <= samples:
        raise _garbage(f"{len(choices)} choices where {samples} were asked for")
    first = choices[0]
    whole = [choice.finish_reason in _WHOLE and choice.message.content is not None for choice in choices]
    if not any(whole):
        is_cut = first.finish_reason not in _WHOLE
        ended = server_text(str(first.finish_reason), 40)
        raise _garbage(f"an answer that ended with {ended}" if is_cut else "a choice without text")
    texts = [(choice.message.content or "") if usable else "" for choice, usable in zip(choices, whole, strict=True)]
    usage = answer.usage or _Usage()
    generated = usage.completion_tokens or 0
    scored = first.logprobs.content if first.logprobs else None
    ids = first.token_ids
    tokens = None
    if ids is not None and scored is not None:
        if len(ids) != len(scored):
            raise _garbage(f"{len(scored)} log probabilities for {len(ids)} tokens")
        tokens = ReplyTokens(tuple(ids), tuple(each.logprob for each in scored))
    return Completion(
        text=texts[0],
        input_tokens=usage.prompt_tokens,
        output_tokens=generated,
        finish_reason=first.finish_reason or "",
        others=tuple(texts[1:]),
        logprobs=tuple(
            TokenLogprob(each.token, each.logprob, tuple((other.token, other.logprob) for other in each.top_logprobs))
            for each in scored or []
        ),
        price=(usage.prompt_tokens * input_price + generated * output_price) / 1e6,
        tokens=tokens,
    )


def embeddings(body: bytes, texts: int) -> list[tuple[float, ...]]:
    """Parse the vectors in an answer to `POST /embeddings`, in the order of the texts.

    Raises ExchangeFailure if there is no vector for each text, or their lengths differ (`FailureReason.GARBAGE`).
    """
    found = sorted(_parsed(_List[_Embedding], body).data, key=lambda each: each.index)
    if [each.index for each in found] != list(range(texts)) or len({len(each.embedding) for each in found}) != 1:
        raise _garbage(f"no equally long vectors for {texts} texts")
    return [each.embedding for each in found]


def error_message(body: bytes) -> str:
    try:
        answer = _ErrorAnswer.model_validate_json(body)
    except ValidationError:
        return server_text(body.decode(errors="replace"))
    inner = answer.error.message if isinstance(answer.error, _ErrorBody) else answer.error
    return server_text(inner or answer.message or answer.detail or "")
