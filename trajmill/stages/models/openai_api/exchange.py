"""Sends one HTTP request to one server, reads an answer of bounded size, and names what went wrong."""

from __future__ import annotations

import asyncio
import io
import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.secrets import Secrets
from trajmill.stages.models.openai_api.answers import (
    ExchangeFailure,
    FailureReason,
    error_message,
    model_names,
    one_line,
)
from trajmill.stages.models.openai_api.spec import OpenAiSpec


def retry_after_seconds(value: str | None, date: str | None) -> float | None:
    """Seconds that a `Retry-After` header asks for (RFC 9110, 10.2.3); None without a readable header.

    Args:
        value: seconds, or an HTTP date.
        date: the `Date` header of the same answer. A date in `value` is compared with it, because clocks may differ.
    """
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value)
    until = _moment(value)
    if until is None:
        return None
    now = _moment(date) if date else None
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


def backoff_seconds(attempt: int, first: float, longest: float) -> float:
    """Seconds to wait after a failed attempt (counted from 1); doubled each time, and half of the wait is random.

    The random part has no seed, because callers that were refused together must not return together.
    """
    return float(min(longest, first * 2.0 ** min(attempt - 1, 30)) * random.uniform(0.5, 1.0))


def _moment(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


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
            total=spec.total_seconds,
            sock_connect=spec.connect_seconds,
            sock_read=spec.read_seconds,
        ),
    )


async def exchange(
    session: aiohttp.ClientSession, secrets: Secrets, method: str, url: str, body: bytes | None = None
) -> bytes:
    """Send a request and read the body of its answer, without the keys that the server echoes in it or in an error.

    Raises:
        ExchangeFailure: no connection, a time-out, an error status, or more than `MOST_BYTES`.
    """
    data = io.BytesIO(body) if body is not None and len(body) > _LARGE_BYTES else body
    try:
        async with session.request(method, url, data=data, allow_redirects=False) as response:
            received = secrets.scrub_bytes(await _bounded(response))
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise ExchangeFailure(FailureReason.UNREACHABLE, f"no connection ({_reason(error, secrets)})") from None
    except TimeoutError:
        raise ExchangeFailure(FailureReason.BROKEN, "timed out before the whole answer was there") from None
    except aiohttp.InvalidURL:
        raise ExchangeFailure(FailureReason.REFUSED, "not a URL") from None
    except (aiohttp.ClientError, OSError) as error:
        raise ExchangeFailure(FailureReason.BROKEN, f"connection cut ({_reason(error, secrets)})") from None
    if response.status != 200:
        raise _refusal(response, received)
    return received


def under(url: str, path: str) -> str:
    return f"{url.rstrip('/')}/{path}"


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            response.close()
            raise ExchangeFailure(FailureReason.REFUSED, f"an answer of more than {MOST_BYTES // 2**20} MiB")
    return b"".join(parts)


def _refusal(response: aiohttp.ClientResponse, body: bytes) -> ExchangeFailure:
    message = f"{response.status} {error_message(body)}".strip()
    headers = response.headers
    wait = retry_after_seconds(headers.get("Retry-After"), headers.get("Date"))
    if response.status in _BUSY:
        return ExchangeFailure(FailureReason.BUSY, message, wait)
    if response.status >= 500 or response.status in _PASSING:
        return ExchangeFailure(FailureReason.BROKEN, message, wait)
    return ExchangeFailure(FailureReason.REFUSED, message)


def _reason(error: BaseException, secrets: Secrets) -> str:
    return one_line(secrets.scrub(str(error)), 120) or type(error).__name__


_SECONDS = 10.0
"""Time limit of the request in seconds; a server lists its models at once."""


async def reason_for_no_answer(session: aiohttp.ClientSession, secrets: Secrets, url: str, model: str) -> str | None:
    """Why a server does not answer; None if it answers and knows the model.

    Raises:
        BadInputError: it answers, but does not serve the model, refuses the key, or is something else.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            names = model_names(await exchange(session, secrets, "GET", under(url, "models")))
    except TimeoutError:
        return f"{shown(url)}: no answer within {_SECONDS:.0f} s"
    except ExchangeFailure as failure:
        if failure.reason is not FailureReason.REFUSED:
            return f"{shown(url)}: {failure}"
        hint = "check the API key, and that the URL ends in /v1"
        raise BadInputError(f"{shown(url)}/models: {failure}; {hint}") from None
    if names is None:
        raise BadInputError(f"{shown(url)}: no OpenAI-compatible server; check that the URL ends in /v1")
    if model not in names:
        known = ", ".join(repr(name) for name in names[:5]) or "none"
        raise BadInputError(f"{shown(url)}: no model {model!r}; it serves {known}: name one of them")
    return None


async def is_there(session: aiohttp.ClientSession, secrets: Secrets, url: str) -> bool:
    """Whether a server answers at all; a refusal counts as an answer."""
    try:
        async with asyncio.timeout(_SECONDS):
            await exchange(session, secrets, "GET", under(url, "models"))
    except TimeoutError:
        return False
    except ExchangeFailure as failure:
        return failure.reason is FailureReason.REFUSED
    return True


def shown(url: str) -> str:
    """A base URL for a message: without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
