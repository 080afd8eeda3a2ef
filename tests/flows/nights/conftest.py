from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from trajmill.flows.configuration.sections import NotifySection


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    received: list[dict[str, Any]] = []
    heartbeats: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def do_GET(self) -> None:
            heartbeats.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Write nothing."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}/hook"
    yield Inbox.model_construct(webhook=address, heartbeat="", blocks=(), received=received, heartbeats=heartbeats)
    server.shutdown()
    thread.join()
    server.server_close()


class Inbox(NotifySection):
    """The address of a local webhook, and what it has received."""

    received: list[dict[str, Any]] = []
    heartbeats: list[str] = []
