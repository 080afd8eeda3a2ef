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
    endpoint: str
    model: str
    """Name of the model in requests."""
    section: ModelServerSpec
    api_key: str = ""

    @property
    def address(self) -> str:
        """Base address of its API."""
        return f"http://{_HOST}:{self.section.port}/v1"

    @property
    def health(self) -> str:
        return f"http://{_HOST}:{self.section.port}/health"


class RunningServer(NamedTuple):
    endpoint: str
    address: str
    """Base address of its API, e.g. `http://127.0.0.1:8000/v1`."""
    process_id: int | None
    """Process id of its keeper, the leader of its process group; None if the server ran before."""


@contextmanager
def served(servers: Sequence[ModelServer], logs: Path) -> Iterator[tuple[RunningServer, ...]]:
    """Start the servers that do not run yet, all at the same time, and stop these at the end.

    Each writes to `logs`/ENDPOINT.log.

    Raises:
        BadInputError: a port is asked for twice or taken by something else, or there is no such Python.
        TrajmillError: a server ended while starting, or hung; the message quotes its log.
    """
    taken: dict[int, str] = {}
    for server in servers:
        port, other = server.section.port, taken.setdefault(server.section.port, server.endpoint)
        if other != server.endpoint:
            raise BadInputError(
                f"endpoints.{server.endpoint}.serve.port is {port}, which endpoints.{other} has already"
            )
    missing = [server for server in servers if not _is_running(server)]
    started: list[_Started] = []
    try:
        for server in missing:
            started.append(_Started(server, logs))
        for each in started:
            each.await_ready()
        process_ids = {each.server.endpoint: each.keeper.pid for each in started}
        yield tuple(
            RunningServer(server.endpoint, server.address, process_ids.get(server.endpoint)) for server in servers
        )
    finally:
        for each in started:
            assert each.keeper.stdin is not None
            each.keeper.stdin.close()
        until = time.monotonic() + SECONDS_TO_END + 5.0
        for each in started:
            each.end(until)


def _is_running(server: ModelServer) -> bool:
    health = ask_server(server.health)
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


class _Started:
    def __init__(self, server: ModelServer, logs: Path) -> None:
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
        logs.mkdir(parents=True, exist_ok=True)
        self.server, self.log = server, logs / f"{server.endpoint}.log"
        with self.log.open("ab") as log_file:
            self.log_start = log_file.tell()
            keeper = [sys.executable, "-P", "-m", "trajmill.flows.serving.server_keeper"]
            self.keeper = subprocess.Popen(
                [*keeper, *program, *place, *model, *section.arguments],
                stdin=subprocess.PIPE,
                stdout=log_file,
                stderr=log_file,
                env=os.environ | own | section.environment,
                start_new_session=True,
            )

    def await_ready(self) -> None:
        """Wait as long as the server lives and its log grows: loading time has no bound on a busy machine."""
        server, silence = self.server, LogSilence(self.log, time.monotonic())
        name = f"the model server of endpoints.{server.endpoint}"
        while (code := self.keeper.poll()) is None and ask_server(server.health).status != 200:
            if silence.seconds(time.monotonic()) >= server.section.ready_seconds:
                seconds = f"silent for {server.section.ready_seconds:g} s (serve.ready_seconds)"
                raise TrajmillError(f"{name} hung while starting: {seconds}: {self._log_excerpt()}")
            time.sleep(_POLL_SECONDS)
        if code is not None:
            raise TrajmillError(f"{name} ended with code {code} while starting: {self._log_excerpt()}")
        models = served_models(server.address, server.api_key)
        if isinstance(models, ServerAnswer):
            raise TrajmillError(f"{name} started and does not tell its models ({_status_text(models)})")
        if server.model not in models:
            raise BadInputError(
                f"{name} serves {', '.join(sorted(models))}, not {server.model}; "
                "leave --served-model-name out of serve.arguments"
            )

    def end(self, until: float) -> None:
        """Wait for the keeper until a time, then kill what is left of its group and wait until that is gone."""
        with suppress(subprocess.TimeoutExpired):
            self.keeper.wait(timeout=max(0.0, until - time.monotonic()))
        until = time.monotonic() + _SECONDS_TO_BE_GONE
        with suppress(ProcessLookupError):
            os.killpg(self.keeper.pid, signal.SIGKILL)
            self.keeper.wait()
            while time.monotonic() < until:
                os.killpg(self.keeper.pid, signal.SIGKILL)
                time.sleep(_POLL_SECONDS)
        self.keeper.wait()

    def _log_excerpt(self) -> str:
        return f"{error_in_log(self.log, self.log_start)}; all of it is in {self.log}"


def _status_text(answer: ServerAnswer) -> str:
    return f"status {answer.status}" if answer.status else answer.reason


class LogSilence:
    """Seconds in which a log has not grown."""

    def __init__(self, log: Path, now: float) -> None:
        self._log, self._size, self._since = log, log.stat().st_size, now

    def seconds(self, now: float) -> float:
        """Return the seconds since the log was last seen to have grown, or since the beginning."""
        size = self._log.stat().st_size
        if size != self._size:
            self._size, self._since = size, now
        return now - self._since


def error_in_log(log: Path, start: int = 0) -> str:
    """Return the first error after byte `start` of a log, or else its last line; one printable line.

    Later errors only report that another process failed ("see root cause above").
    """
    with log.open("rb") as file:
        file.seek(max(start, file.seek(0, 2) - _LOOK_BACK_BYTES))
        text = file.read().decode(errors="replace")
    lines = ["".join(filter(str.isprintable, _LINE_PREFIX.sub("", line.rstrip()))) for line in text.splitlines()]
    lines = [line for line in lines if line.strip()]
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        if _ERROR.fullmatch(line):
            return (line + (following if _CONTINUED.fullmatch(following) else ""))[:_LONGEST]
    return lines[-1].strip()[:_LONGEST] if lines else "it wrote nothing"
