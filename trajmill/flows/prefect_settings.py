"""Prepares Prefect for a run on one machine: quiet settings, and a server of its own if the user names none.

A user names one by PREFECT_API_URL or a Prefect profile. Import this before `prefect`, which reads variables on import.
Prefect's own temporary server keeps running when its owner is killed; ours ends with it.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from trajmill.flows.serving.kept_server import KeptServer, is_free
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.secrets import Secrets

QUIET_DEFAULTS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    # The command line prints a failure in one line; Prefect's log of the run keeps its traceback.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_SHOW_WARNINGS": "false",
}
_SECONDS_TO_START = 240.0
_SECONDS_TO_END = 3.0


def set_quiet_defaults() -> None:
    """Set what the user has not set: no analytics, few logs, a long time limit for the start."""
    for name, value in QUIET_DEFAULTS.items():
        os.environ.setdefault(name, value)


def set_talkative_defaults() -> None:
    """Set the same for a process that keeps running: it logs its work to the console."""
    for name in ("PREFECT_LOGGING_LEVEL", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"):
        os.environ.setdefault(name, "INFO")
    set_quiet_defaults()


def scrub_record(secrets: Secrets, record: logging.LogRecord) -> bool:
    """Remove keys from a log record, also from the errors that a traceback chains; a filter of `logging`."""
    if record.exc_info:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
        record.exc_info = None
    # A filter with other keys may have formatted the error before this one.
    if record.exc_text:
        record.exc_text = secrets.scrub(record.exc_text)
    record.msg, record.args = secrets.scrub(record.getMessage()), ()
    return True


def scrub_logs(secrets: Secrets) -> None:
    """Keep keys out of what flows log to the Prefect server and the console, until this process ends."""
    import prefect.main  # noqa: F401  # sets the handlers up

    scrubbed = partial(scrub_record, secrets)
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs", "trajmill"):
        for handler in logging.getLogger(name).handlers:
            handler.addFilter(scrubbed)


@contextmanager
def short_lived_server(log: Path) -> Iterator[None]:
    """Inside, flows use the user's server, or one of this process without schedules; raises as `long_lived_server`."""
    set_quiet_defaults()
    if names_a_server():
        named_server()
        yield
        return
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    settings = {
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT_UI_ENABLED": "0",
        # No flow of ours uses Prefect's blocks, and to register them takes a second.
        "PREFECT_API_BLOCKS_REGISTER_ON_START": "0",
    }
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    with (
        _own_server(port, log, settings),
        # Each flow run waits up to a second for its heartbeat thread to end. Heartbeats report to a long-lived server
        # that a flow died; this server ends with its flows.
        temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}),
    ):
        try:
            yield
        finally:
            # Log lines and events wait in Prefect's background threads.
            EventsWorker.drain_all(timeout=5.0, at_exit=False)
            APILogWorker.drain_all(timeout=5.0, at_exit=False)


@contextmanager
def long_lived_server(port: int) -> Iterator[str]:
    """A server with schedules, or the user's; gives its address. Raises TrajmillError: it does not start or answer."""
    from prefect.settings import get_current_settings

    if names_a_server():
        yield named_server()
        return
    if not is_free(port):
        raise TrajmillError(
            f"port {port} is taken, so no Prefect server can be started there; if it is one, set "
            f"PREFECT_API_URL={_address(port)} and start again"
        )
    # Beside its database, since it may serve several runs.
    log = get_current_settings().home / "trajmill-server.log"
    # Without it the page uses port 4200.
    with _own_server(port, log, {"PREFECT_UI_API_URL": _address(port)}) as address:
        yield address


def names_a_server() -> bool:
    """Whether the user, or an enclosing context of this module, has named a Prefect server."""
    from prefect.settings import get_current_settings

    return get_current_settings().api.url is not None


def named_server() -> str:
    """Return the API address of the user's server. Raises TrajmillError: none is named, or it does not answer."""
    from prefect.settings import get_current_settings

    if not names_a_server():
        raise TrajmillError("no Prefect server is named: set PREFECT_API_URL, e.g. to http://prefect:4200/api")
    address = str(get_current_settings().api.url)
    try:
        urllib.request.urlopen(f"{address.rstrip('/')}/health", timeout=10).close()
    except (OSError, ValueError) as error:
        if not isinstance(error, urllib.error.HTTPError):  # A refusal is an answer, too: the server is there.
            reason = getattr(error, "reason", error)
            text = f"the Prefect server {address} does not answer ({reason}); start it, or unset PREFECT_API_URL"
            raise TrajmillError(text) from error
    return address


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}/api"


@contextmanager
def _own_server(port: int, log: Path, settings: dict[str, str]) -> Iterator[str]:
    from prefect.context import refresh_global_settings_context
    from prefect.settings import get_current_settings

    home = get_current_settings().home
    try:
        home.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=home).close()
    except OSError as error:
        raise TrajmillError(
            f"{home}, the folder of Prefect, cannot be written ({error.strerror}); "
            "set PREFECT_HOME to a folder that you can write to"
        ) from error
    address, uvicorn = _address(port), (sys.executable, "-P", "-m", "uvicorn")
    program = [
        *(*uvicorn, "--factory", "prefect.server.api.server:create_app"),
        *("--app-dir", sys.prefix),  # not the working folder, where a module of the user may have any name
        *("--host", "127.0.0.1", "--port", str(port), "--lifespan", "on", "--log-level", "error"),
        *("--timeout-graceful-shutdown", "2"),
    ]
    server, until = KeptServer(program, log, _SECONDS_TO_END, settings), time.monotonic() + _SECONDS_TO_START
    try:
        while True:
            with suppress(OSError):
                urllib.request.urlopen(f"{address}/health", timeout=5).close()
                break
            if time.monotonic() >= until or server.process.poll() is not None:
                raise TrajmillError(
                    f"the Prefect server did not start; see {log}, or set PREFECT_API_URL to a server of yours"
                )
            time.sleep(0.1)
        os.environ["PREFECT_API_URL"] = address
        refresh_global_settings_context()
        yield address
    finally:
        os.environ.pop("PREFECT_API_URL", None)
        refresh_global_settings_context()
        server.end()
