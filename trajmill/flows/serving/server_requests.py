"""Short requests to a running model server: its health, its models, adapters to load and unload.

A vLLM server takes adapters if it was started with `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1; trajmill
sets the variable for servers that it starts with `--enable-lora`. The server reads the adapter's folder itself.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.secrets import Secrets

_MOST_BYTES = 1_000_000
_LOAD_SECONDS = 300.0


class ServerAnswer(NamedTuple):
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
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    # Requests to this machine never go through a proxy, even if the environment names one.
    is_local = urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_local else []))
    try:
        with opener.open(request, timeout=seconds) as response:
            status, text = response.status, response.read(_MOST_BYTES).decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, error.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, HTTPException) as error:
        status, text = 0, str(getattr(error, "reason", error)) or type(error).__name__
    return ServerAnswer(status, Secrets.of(os.environ, api_key, urls=[url]).scrub(text))


def served_models(address: str, api_key: str = "") -> frozenset[str] | ServerAnswer:
    """Return the model names of the server at `address` (.../v1), adapters included, or its refusal."""
    answer = ask_server(f"{address}/models", api_key=api_key)
    if answer.status != 200:
        return answer
    try:
        return frozenset(str(card["id"]) for card in json.loads(answer.text)["data"])
    except (ValueError, TypeError, KeyError):
        return ServerAnswer(0, "its list of models cannot be read")


class Adapter(NamedTuple):
    """A LoRA adapter in PEFT's layout."""

    name: str
    """The model name in requests; each set of weights has its own."""
    folder: Path


def load_adapter(address: str, adapter: Adapter, api_key: str = "") -> None:
    """Load an adapter into the server at `address` (.../v1); loading it again is fine.

    Raises:
        BadInputError: the folder has no adapter, or the server does not take adapters.
        TrajmillError: the server does not answer.
    """
    if not (adapter.folder / "adapter_config.json").is_file():
        raise BadInputError(f"{adapter.folder} is no LoRA adapter: it has no adapter_config.json")
    body = {"lora_name": adapter.name, "lora_path": str(adapter.folder.absolute()), "load_inplace": True}
    _post(f"load the LoRA adapter {adapter.name}", address, "load_lora_adapter", body, api_key, _LOAD_SECONDS)


def unload_adapter(address: str, name: str, api_key: str = "") -> None:
    """Remove an adapter from the server at `address`; running requests are finished.

    Raises:
        BadInputError: the server does not take adapters.
        TrajmillError: the server does not answer.
    """
    models = served_models(address, api_key)
    if isinstance(models, ServerAnswer) or name in models:
        _post(f"unload the LoRA adapter {name}", address, "unload_lora_adapter", {"lora_name": name}, api_key, 10.0)


def _post(what: str, address: str, path: str, body: object, api_key: str, seconds: float) -> None:
    answer = ask_server(f"{address}/{path}", body, api_key, seconds)
    if answer.status == 0:
        raise TrajmillError(f"the model server {address} does not answer ({answer.reason})")
    if answer.status in (404, 405) and "does not exist" not in answer.text:
        raise BadInputError(
            f"the model server {address} cannot {what}: start it with --enable-lora and "
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
        )
    if answer.status != 200:
        raise BadInputError(f"the model server {address} did not {what}: {answer.reason}")
