"""Starts the model servers that the configuration asks for, waits until they are ready, and stops them.

Each runs under a keeper (`server_keeper.py`) in its own process group, so that all its processes end with trajmill.
Servers are identified by process id and port, never by name.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from trajmill.flows.prefect_settings import is_free
from trajmill.flows.serving.server_keeper import SECONDS_TO_END
from trajmill.flows.serving.server_requests import ServerAnswer, ask_server, served_models
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.stages.models.openai_api.spec import ModelServerSpec

_POLL_SECONDS = 0.2
_SECONDS_TO_BE_GONE = 5.0
_HOST = "127.0.0.1"
_LOOK_BACK_BYTES = 262_144
_LONGEST = 400
_LINE_PREFIX = re.compile(r"^\(\w+ pid=\d+\) ?(?:(?:ERROR|CRITICAL) \S+ \S+ \[[^\]]*\] ?)?")
"""The start of vLLM's lines: the process and, in log lines, level, time and place."""
_ERROR = re.compile(r"[\w.]+(?:Error|Exception): .+|[\w.-]+: error: .+")
"""The last line of a traceback, or an error of argparse."""
_CONTINUED = re.compile(r" {1,3}(?!File )\S.*")


class ModelServer(NamedTuple):
    """A server that an endpoint needs."""

    endpoint: str
    model: str
    """Name that requests use for the model."""
    section: ModelServerSpec
    api_key: str = ""

    @property
    def address(self) -> str:
        """Base address of its API."""
        return f"http://{_HOST}:{self.section.port}/v1"


class RunningServer(NamedTuple):
    """A server that answers."""

    endpoint: str
    address: str
    """Base address of its API, e.g. `http://127.0.0.1:8000/v1`."""
    process_id: int | None
    """Process id of its keeper, the leader of its process group; None if the server ran before."""


class _Started(NamedTuple):
    server: ModelServer
    keeper: subprocess.Popen[bytes]
    log: Path
    log_start: int


@contextmanager
def served(servers: Sequence[ModelServer], logs: Path) -> Iterator[tuple[RunningServer, ...]]:
    """Inside, all `servers` answer; those that had to be started are stopped at the end.

    They load their weights at the same time. Each writes to `logs`/ENDPOINT.log.

    Raises:
        BadInputError: a port is asked for twice or taken by something else, or there is no such Python.
        TrajmillError: a server ended while starting, or hung; the message quotes its log.
    """
    _refuse_shared_ports(servers)
    missing = [server for server in servers if not _is_running(server)]
    started: list[_Started] = []
    try:
        for server in missing:
            started.append(_start(server, logs))
        for each in started:
            _await_ready(each)
        process_ids = {each.server.endpoint: each.keeper.pid for each in started}
        yield tuple(
            RunningServer(server.endpoint, server.address, process_ids.get(server.endpoint)) for server in servers
        )
    finally:
        _stop(started)


def _refuse_shared_ports(servers: Sequence[ModelServer]) -> None:
    taken: dict[int, str] = {}
    for server in servers:
        other = taken.setdefault(server.section.port, server.endpoint)
        if other != server.endpoint:
            raise BadInputError(
                f"endpoints.{server.endpoint}.serve.port is {server.section.port}, which endpoints.{other} has already"
            )


def _is_running(server: ModelServer) -> bool:
    """Whether a server of the model already runs at the address."""
    health = ask_server(f"http://{_HOST}:{server.section.port}/health")
    if health.status == 0 and is_free(server.section.port):
        return False
    where = f"endpoints.{server.endpoint}.serve.port {server.section.port}"
    if health.status != 200:
        raise BadInputError(
            f"{where} is taken by something that is not a healthy model server ({_status_text(health)}); "
            "choose another port, or end what is there"
        )
    models = served_models(server.address, server.api_key)
    if isinstance(models, ServerAnswer):
        raise BadInputError(f"{where} has a server that does not tell its models ({_status_text(models)})")
    if server.model not in models:
        raise BadInputError(
            f"{where} has a server of {', '.join(sorted(models)) or 'no model'}, not of {server.model}; "
            "choose another port, or stop that server"
        )
    return True


def _start(server: ModelServer, logs: Path) -> _Started:
    if not os.access(server.section.python, os.X_OK):
        raise BadInputError(
            f"endpoints.{server.endpoint}.serve.python: there is no program {server.section.python}; it is the Python "
            "of the environment that vLLM is installed in"
        )
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{server.endpoint}.log"
    with log.open("ab") as log_file:
        log_start = log_file.tell()
        keeper = subprocess.Popen(
            [sys.executable, "-P", "-m", "trajmill.flows.serving.server_keeper", *_command(server)],
            stdin=subprocess.PIPE,
            stdout=log_file,
            stderr=log_file,
            env=_environment(server),
            start_new_session=True,
        )
    return _Started(server, keeper, log, log_start)


def _command(server: ModelServer) -> list[str]:
    """The module that `vllm serve` runs; some builds of vLLM lack the command, but none lacks the module."""
    section = server.section
    program = [str(section.python), "-m", "vllm.entrypoints.openai.api_server"]
    place = ["--host", _HOST, "--port", str(section.port)]
    model = ["--model", section.model or server.model, "--served-model-name", server.model]
    return [*program, *place, *model, *section.arguments]


def _environment(server: ModelServer) -> dict[str, str]:
    # PYTHONSAFEPATH acts like the option -P; Pythons before 3.11, which vLLM may use, ignore it.
    own = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "NO_COLOR": "1", "PYTHONSAFEPATH": "1"}
    if server.api_key:
        own["VLLM_API_KEY"] = server.api_key
    if "--enable-lora" in server.section.arguments:
        own["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    return os.environ | own | server.section.environment


def _await_ready(started: _Started) -> None:
    """Wait as long as the server lives and its log grows: how long it loads says nothing on a busy machine."""
    server = started.server
    health = f"http://{_HOST}:{server.section.port}/health"
    silence = LogSilence(started.log, time.monotonic())
    while silence.seconds(time.monotonic()) < server.section.ready_seconds:
        code = started.keeper.poll()
        if code is not None:
            raise TrajmillError(f"{_name(server)} ended with code {code} while starting: {_log_excerpt(started)}")
        if ask_server(health).status == 200:
            return _check_model(server)
        time.sleep(_POLL_SECONDS)
    raise TrajmillError(
        f"{_name(server)} hung while starting: silent for {server.section.ready_seconds:g} s (serve.ready_seconds): "
        f"{_log_excerpt(started)}"
    )


def _check_model(server: ModelServer) -> None:
    models = served_models(server.address, server.api_key)
    if isinstance(models, ServerAnswer):
        raise TrajmillError(f"{_name(server)} started and does not tell its models ({_status_text(models)})")
    if server.model not in models:
        raise BadInputError(
            f"{_name(server)} serves {', '.join(sorted(models))}, not {server.model}; "
            "leave --served-model-name out of serve.arguments"
        )


def _stop(started: Sequence[_Started]) -> None:
    """Ask all servers to end, then kill those that have not ended in time."""
    for each in started:
        assert each.keeper.stdin is not None
        each.keeper.stdin.close()
    until = time.monotonic() + SECONDS_TO_END + 5.0
    for each in started:
        with suppress(subprocess.TimeoutExpired):
            each.keeper.wait(timeout=max(0.0, until - time.monotonic()))
        _end_group(each.keeper)


def _end_group(keeper: subprocess.Popen[bytes]) -> None:
    """Kill the processes that are left of a keeper's group, and wait until they are gone."""
    until = time.monotonic() + _SECONDS_TO_BE_GONE
    with suppress(ProcessLookupError):
        os.killpg(keeper.pid, signal.SIGKILL)
        keeper.wait()
        while time.monotonic() < until:
            os.killpg(keeper.pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
    keeper.wait()


def _name(server: ModelServer) -> str:
    return f"the model server of endpoints.{server.endpoint}"


def _log_excerpt(started: _Started) -> str:
    return f"{error_in_log(started.log, started.log_start)}; all of it is in {started.log}"


def _status_text(answer: ServerAnswer) -> str:
    return f"status {answer.status}" if answer.status else answer.reason


class LogSilence:
    """How long a log has not grown."""

    def __init__(self, log: Path, now: float) -> None:
        """Begin to look at a log, at a time in seconds."""
        self._log, self._size, self._since = log, log.stat().st_size, now

    def seconds(self, now: float) -> float:
        """Seconds since it was last seen to have grown, or since the beginning."""
        size = self._log.stat().st_size
        if size != self._size:
            self._size, self._since = size, now
        return now - self._since


def error_in_log(log: Path, start: int = 0) -> str:
    """The first error after byte `start` of a log, or else its last line; one printable line.

    It is the first, because later ones only say that another process failed ("see root cause above").
    """
    lines = [line for line in map(_without_prefix, _tail(log, start).splitlines()) if line.strip()]
    if not lines:
        return "it wrote nothing"
    return (_first_error(lines) or lines[-1].strip())[:_LONGEST]


def _first_error(lines: Sequence[str]) -> str | None:
    for number, line in enumerate(lines):
        if _ERROR.fullmatch(line):
            following = lines[number + 1] if number + 1 < len(lines) else ""
            return line + (following if _CONTINUED.fullmatch(following) else "")
    return None


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(start, size - _LOOK_BACK_BYTES))
        return file.read().decode(errors="replace")


def _without_prefix(line: str) -> str:
    return "".join(character for character in _LINE_PREFIX.sub("", line.rstrip()) if character.isprintable())
