"""A hub that speaks as much of Hugging Face's HTTP interface as a push needs, over a real socket."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.http_server import QuietHandler, serving


@dataclass
class Hub:
    """What the hub was told."""

    token: str
    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    made: list[dict[str, Any]] = field(default_factory=list)
    """The repositories that were made."""
    commits: list[str] = field(default_factory=list)
    """Their messages."""
    objects: dict[str, bytes] = field(default_factory=dict)
    """Large files by hash."""

    def answer(self, path: str, body: bytes) -> tuple[dict[str, object], int]:
        if path == "/api/repos/create":
            self.made.append(json.loads(body))
            return {"url": f"{self.address}/datasets/team/rows"}, 200
        if path == "/api/validate-yaml":
            return {"errors": [], "warnings": []}, 200
        if "/preupload/" in path:
            names = [each["path"] for each in json.loads(body)["files"]]
            modes = ["lfs" if name.endswith(".parquet") else "regular" for name in names]
            pairs = zip(names, modes, strict=True)
            return {"files": [{"path": name, "uploadMode": mode, "shouldIgnore": False} for name, mode in pairs]}, 200
        if path.endswith("/info/lfs/objects/batch"):
            wanted = json.loads(body)["objects"]
            places = [{"upload": {"href": f"{self.address}/objects/{each['oid']}"}} for each in wanted]
            objects = [each | {"actions": place} for each, place in zip(wanted, places, strict=True)]
            return {"transfer": "basic", "objects": objects}, 200
        if "/commit/" in path:
            for line in body.splitlines():
                entry = json.loads(line)
                value = entry["value"]
                if entry["key"] == "header":
                    self.commits.append(value["summary"])
                elif entry["key"] == "lfsFile":
                    self.files[value["path"]] = self.objects[value["oid"]]
                else:
                    self.files[value["path"]] = base64.b64decode(value["content"])
            url = f"{self.address}/datasets/team/rows/commit/{'0' * 40}"
            return {"success": True, "commitOid": "0" * 40, "commitUrl": url, "hookOutput": ""}, 200
        return {"error": f"no such place: {path}"}, 404


@contextmanager
def running_hub(token: str = "secret") -> Iterator[Hub]:
    """A hub that takes one token."""
    hub = Hub(token)

    class Handler(QuietHandler):
        def reply(self) -> None:
            value, status = dict[str, object](), 200
            if self.command == "PUT":
                hub.objects[hashlib.sha256(self.body).hexdigest()] = self.body
            elif self.headers.get("Authorization") == f"Bearer {hub.token}":
                value, status = hub.answer(self.path, self.body)
            else:
                value, status = {"error": "Invalid username or password."}, 401
            self.answer(json.dumps(value).encode(), status, Content_Type="application/json")

    with serving(Handler) as hub.address:
        yield hub
