"""Starts the model servers that the configuration asks for and stops them; sends them short requests.

Each has a process group of its own, and ends with trajmill.
A vLLM server takes adapters, whose folders it reads, with `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from trajmill.flows.serving.kept_server import KeptServer, is_free
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.secrets import Secrets
from trajmill.stages.models.openai_api.spec import ModelServerSpec
from trajmill.stages.training.admission import ADAPTER_CONFIG

_MOST_BYTES = 1_000_000
_POLL_SECONDS = 0.2
_LOAD_SECONDS = 300.0
_SECONDS_TO_END = 15.0
_HOST = "127.0.0.1"
_LOOK_BACK_BYTES = 262_144
_LONGEST = 400
_LINE_PREFIX = re.compile(r"^\(\w+ pid=\d+\) ?(?:(?:ERROR|CRITICAL) \S+ \S+ \[[^\]]*\] ?)?")
"""The start of vLLM's lines: the process and, in log lines, level, time and place."""
_ERROR = re.compile(r"[\w.]+(?:Error|Exception): .+|[\w.-]+: error: .+")
"""The last line of a traceback, or an error of argparse."""
_CONTINUED = re.compile(r" {1,3}(?!File )\S.*")


class ModelServer(NamedTuple):
    endpoint: str
    model: str
    section: ModelServerSpec
    api_key: str = ""

    @property
    def address(self) -> str:
        return f"http://{_HOST}:{self.section.port}/v1"

    @property
    def health(self) -> str:
        return f"http://{_HOST}:{self.section.port}/health"


@contextmanager
def served(servers: Sequence[ModelServer], logs: Path) -> Iterator[dict[str, int]]:
    """Start the servers that do not run yet, with logs in `logs`/ENDPOINT.log, and stop these at the end.

    Yields their process groups by endpoint. Raises BadInputError (a port is taken, or there is no such
    Python), TrajmillError (a server ended or hung while starting; the message quotes its log).
    """
    taken: dict[int, str] = {}
    for server in servers:
        port, other = server.section.port, taken.setdefault(server.section.port, server.endpoint)
        if other != server.endpoint:
            raise BadInputError(
                f"endpoints.{server.endpoint}.serve.port is {port}, which endpoints.{other} has already; "
                "choose another port"
            )
    missing, started = [server for server in servers if not _is_running(server)], dict[str, KeptServer]()
    try:
        for server in missing:
            started[server.endpoint] = _start(server, logs)
        for server in missing:
            _await_ready(server, started[server.endpoint])
        yield {endpoint: kept.process.pid for endpoint, kept in started.items()}
    finally:
        for kept in started.values():
            kept.process.terminate()
        for kept in started.values():
            kept.end()


def _is_running(server: ModelServer) -> bool:
    health, where = ask_server(server.health), f"endpoints.{server.endpoint}.serve.port {server.section.port}"
    if health.status == 0 and is_free(server.section.port):
        return False
    if health.status != 200:
        raise BadInputError(
            f"{where} is taken by something that is not a healthy model server ({health.status_text}); "
            "choose another port, or end what is there"
        )
    models = served_models(server.address, server.api_key)
    if isinstance(models, ServerAnswer):
        raise BadInputError(
            f"{where} has a server that does not tell its models ({models.status_text}); "
            "choose another port, or stop that server"
        )
    if server.model not in models:
        raise BadInputError(
            f"{where} has a server of {', '.join(sorted(models)) or 'no model'}, not of {server.model}; "
            "choose another port, or stop that server"
        )
    return True


def _start(server: ModelServer, logs: Path) -> KeptServer:
    section = server.section
    if not os.access(section.python, os.X_OK):
        raise BadInputError(
            f"endpoints.{server.endpoint}.serve.python: there is no program {section.python}; it is the Python "
            "of the environment that vLLM is installed in"
        )
    # The module that `vllm serve` runs; some builds of vLLM lack the command, but none lacks the module.
    program = [str(section.python), "-m", "vllm.entrypoints.openai.api_server"]
    place = ["--host", _HOST, "--port", str(section.port)]
    model = ["--model", section.model or server.model, "--served-model-name", server.model]
    # PYTHONSAFEPATH acts like the option -P; Pythons before 3.11, which vLLM may use, ignore it.
    own = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "NO_COLOR": "1", "PYTHONSAFEPATH": "1"}
    if server.api_key:
        own["VLLM_API_KEY"] = server.api_key
    if "--enable-lora" in section.arguments:
        own["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    program += [*place, *model, *section.arguments]
    return KeptServer(program, logs / f"{server.endpoint}.log", _SECONDS_TO_END, own | section.environment)


def _await_ready(server: ModelServer, kept: KeptServer) -> None:
    """Wait as long as the server lives and its log grows: loading time has no bound on a busy machine."""

    def quoted() -> str:
        return f"{error_in_log(kept.log, kept.log_start)}; all of it is in {kept.log}"

    size, since, name = 0, time.monotonic(), f"the model server of endpoints.{server.endpoint}"
    while (code := kept.process.poll()) is None and ask_server(server.health).status != 200:
        if (written := kept.log.stat().st_size) != size:
            size, since = written, time.monotonic()
        elif time.monotonic() - since >= server.section.ready_seconds:
            seconds = f"silent for {server.section.ready_seconds:g} s (serve.ready_seconds)"
            raise TrajmillError(f"{name} hung while starting: {seconds}: {quoted()}")
        time.sleep(_POLL_SECONDS)
    if code is not None:
        raise TrajmillError(f"{name} ended with code {code} while starting: {quoted()}")
    models = served_models(server.address, server.api_key)
    if isinstance(models, ServerAnswer):
        raise TrajmillError(f"{name} started and does not tell its models ({models.status_text})")
    if server.model not in models:
        raise BadInputError(
            f"{name} serves {', '.join(sorted(models))}, not {server.model}; "
            "leave --served-model-name out of serve.arguments"
        )


def error_in_log(log: Path, start: int = 0) -> str:
    """Return the first error after byte `start` of a log, as later ones follow from it; without one, the last line."""
    with log.open("rb") as file:
        file.seek(max(start, file.seek(0, 2) - _LOOK_BACK_BYTES))
        text = file.read().decode(errors="replace")
    lines = ["".join(filter(str.isprintable, _LINE_PREFIX.sub("", line.rstrip()))) for line in text.splitlines()]
    lines = [line for line in lines if line.strip()]
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        if _ERROR.fullmatch(line):
            return (line + (following if _CONTINUED.fullmatch(following) else ""))[:_LONGEST]
    return lines[-1].strip()[:_LONGEST] if lines else "it wrote nothing"


class ServerAnswer(NamedTuple):
    status: int
    """HTTP status; 0 if there is no server, no HTTP, or no answer in time."""
    text: str
    """The body, or the reason why there is none."""

    @property
    def status_text(self) -> str:
        return f"status {self.status}" if self.status else self.reason

    @property
    def reason(self) -> str:
        """The server's reason for a refusal, in one line."""
        try:
            error = json.loads(self.text)["error"]["message"]
        except (ValueError, TypeError, KeyError):
            error = self.text
        return " ".join(str(error).split())[:300]


def ask_server(url: str, body: object = None, api_key: str = "", seconds: float = 10.0) -> ServerAnswer:
    """Send a GET, or a POST of a JSON `body`; errors become an answer, from which echoed keys are removed."""
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


def load_adapter(address: str, name: str, folder: Path, api_key: str = "") -> None:
    """Load an adapter as model `name`; twice is fine. Raises BadInputError (refused), TrajmillError (no answer)."""
    if not (folder / ADAPTER_CONFIG).is_file():
        raise BadInputError(f"{folder} is no LoRA adapter: it has no {ADAPTER_CONFIG}; name one that PEFT saved")
    body = {"lora_name": name, "lora_path": str(folder.absolute()), "load_inplace": True}
    _ask_about_adapter("load", address, body, api_key, _LOAD_SECONDS)


def unload_adapter(address: str, name: str, api_key: str = "") -> None:
    """Remove an adapter from a server, which finishes running requests. Raises as `load_adapter`."""
    models = served_models(address, api_key)
    if isinstance(models, ServerAnswer) or name in models:
        _ask_about_adapter("unload", address, {"lora_name": name}, api_key, 10.0)


def _ask_about_adapter(verb: str, address: str, body: Mapping[str, object], api_key: str, seconds: float) -> None:
    answer = ask_server(f"{address}/{verb}_lora_adapter", body, api_key, seconds)
    what = f"the LoRA adapter {body['lora_name']}"
    if answer.status == 0:
        raise TrajmillError(f"the model server {address} does not answer ({answer.reason}); start it")
    if answer.status in (404, 405) and "does not exist" not in answer.text:
        raise BadInputError(
            f"the model server {address} cannot {verb} {what}: start it with --enable-lora and "
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
        )
    if answer.status != 200:
        raise BadInputError(f"the model server {address} did not {verb} {what}: {answer.reason}")
