"""Sends one HTTP request to one server and reads an answer of bounded size."""

from __future__ import annotations

import io
from typing import Final

import aiohttp

from trajmill.schemas.secrets import Secrets
from trajmill.stages.models.openai_api.answers import error_message
from trajmill.stages.models.openai_api.failure import ExchangeFailure, FailureReason, one_line
from trajmill.stages.models.openai_api.retry import retry_after_seconds
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
    """The address of a call below a base URL."""
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
