"""Sends short requests to a model server: its health, its models, adapters to load."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import NamedTuple
from urllib.parse import urlsplit

from trajmill.schemas.secrets import Secrets

_MOST_BYTES = 1_000_000


class ServerAnswer(NamedTuple):
    """The answer of a server."""

    status: int
    """HTTP status; 0 if there is no server, no HTTP, or no answer in time."""
    text: str
    """The body, or the reason why there is none."""

    @property
    def reason(self) -> str:
        """The server's reason for a refusal, in one line."""
        try:
            error = json.loads(self.text)["error"]["message"]
        except (ValueError, TypeError, KeyError):
            error = self.text
        return " ".join(str(error).split())[:300]


def ask_server(url: str, body: object = None, api_key: str = "", seconds: float = 10.0) -> ServerAnswer:
    """Send one request: GET, or POST of a JSON `body`; errors become an answer, and nothing is raised.

    Keys that the server echoes are removed from its answer.
    """
    answer = _ask(url, body, api_key, seconds)
    return answer._replace(text=Secrets.of(os.environ, api_key, urls=[url]).scrub(answer.text))


def _ask(url: str, body: object, api_key: str, seconds: float) -> ServerAnswer:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    # Requests to this machine never go through a proxy, even if the environment names one.
    is_local = urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_local else []))
    try:
        with opener.open(request, timeout=seconds) as response:
            return ServerAnswer(response.status, response.read(_MOST_BYTES).decode(errors="replace"))
    except urllib.error.HTTPError as error:
        with error:
            return ServerAnswer(error.code, error.read(_MOST_BYTES).decode(errors="replace"))
    except (OSError, HTTPException) as error:
        return ServerAnswer(0, str(getattr(error, "reason", error)) or type(error).__name__)


def served_models(address: str, api_key: str = "") -> frozenset[str] | ServerAnswer:
    """Model names of the server at `address` (.../v1), adapters included, or its refusal."""
    answer = ask_server(f"{address}/models", api_key=api_key)
    if answer.status != 200:
        return answer
    try:
        return frozenset(str(card["id"]) for card in json.loads(answer.text)["data"])
    except (ValueError, TypeError, KeyError):
        return ServerAnswer(0, "its list of models cannot be read")
