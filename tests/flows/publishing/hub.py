"""A hub that speaks as much of Hugging Face's HTTP interface as a push needs, over a real socket."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub:
    """The repositories of the hub, and what it was told."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.files: dict[str, bytes] = {}
        """The committed files by path."""
        self.made: list[dict[str, Any]] = []
        """The repositories that were made."""
        self.commits: list[str] = []
        """Their messages."""
        self.objects: dict[str, bytes] = {}
        """Large files by hash."""
        self.address = ""


@contextmanager
def running_hub(token: str = "secret") -> Iterator[Hub]:
    """A hub that takes one token."""
    hub = Hub(token)

    class Handler(_Handler):
        served = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    served: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, value: object, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        content = self._body()
        self.served.objects[hashlib.sha256(content).hexdigest()] = content
        self._answer({})

    def do_POST(self) -> None:
        hub, body = self.served, self._body()
        if self.headers.get("Authorization") != f"Bearer {hub.token}":
            self._answer({"error": "Invalid username or password."}, 401)
        elif self.path == "/api/repos/create":
            hub.made.append(json.loads(body))
            self._answer({"url": f"{hub.address}/datasets/team/rows"})
        elif self.path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            modes = {True: "lfs", False: "regular"}
            made = [
                {"path": each["path"], "uploadMode": modes[each["path"].endswith(".parquet")], "shouldIgnore": False}
                for each in files
            ]
            self._answer({"files": made})
        elif self.path.endswith("/info/lfs/objects/batch"):
            wanted = json.loads(body)["objects"]
            actions = [
                each | {"actions": {"upload": {"href": f"{hub.address}/objects/{each['oid']}"}}} for each in wanted
            ]
            self._answer({"transfer": "basic", "objects": actions})
        elif "/commit/" in self.path:
            self._commit([json.loads(line) for line in body.splitlines()])
        else:
            self._answer({"error": f"no such place: {self.path}"}, 404)

    def _commit(self, entries: list[dict[str, Any]]) -> None:
        hub = self.served
        for entry in entries:
            value = entry["value"]
            if entry["key"] == "header":
                hub.commits.append(value["summary"])
            elif entry["key"] == "lfsFile":
                hub.files[value["path"]] = hub.objects[value["oid"]]
            else:
                hub.files[value["path"]] = base64.b64decode(value["content"])
        oid = "0" * 40
        url = f"{hub.address}/datasets/team/rows/commit/{oid}"
        self._answer({"success": True, "commitOid": oid, "commitUrl": url, "hookOutput": ""})
