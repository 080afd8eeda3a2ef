from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from trajmill.flows.configuration.sections import NotifySection


class Inbox(NotifySection):
    """The address of a local webhook, and what it has received."""

    received: list[dict[str, Any]] = []
    heartbeats: list[str] = []


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    box = Inbox.model_construct(heartbeat="", blocks=(), received=[], heartbeats=[])

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            box.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def do_GET(self) -> None:
            box.heartbeats.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        object.__setattr__(box, "webhook", f"http://127.0.0.1:{server.server_port}/hook")
        yield box
        server.shutdown()
