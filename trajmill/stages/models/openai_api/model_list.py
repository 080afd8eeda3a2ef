"""Asks a server for its list of models, to check that it answers and serves the right model."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import aiohttp

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.secrets import Secrets
from trajmill.stages.models.openai_api.answers import model_names
from trajmill.stages.models.openai_api.exchange import exchange, under
from trajmill.stages.models.openai_api.failure import ExchangeFailure, FailureReason

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
