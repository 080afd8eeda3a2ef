"""Listens on an address and serves a web app there until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from trajmill.schemas.errors import BadInputError

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def is_loopback(host: str) -> bool:
    """Whether a host name or address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Open a listening socket. Raises BadInputError if the host or the port cannot be used."""
    try:
        (family, *_, address) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        raise BadInputError(
            f"--host {host} --port {port}: {error.strerror or error}; name another host or port (0: any free port)"
        ) from error
    with listener:
        yield listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Does not raise the signal again at its end, so that the caller can still write what is pending."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_app(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, however often it comes; then end in order."""
    server = _Server(uvicorn.Config(app, log_level="warning", lifespan="auto", timeout_graceful_shutdown=2))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, setattr, server, "should_exit", True)
    try:
        await server.serve(sockets=[listener])
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
