"""`trajmill releases push` against a hub behind a real socket."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset

from tests.http_server import QuietHandler, serving
from trajmill.flows.cli.app import run
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import newest_release, read_release

pytestmark = pytest.mark.slow


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


Push = Callable[..., tuple[int, str, str]]


@pytest.fixture
def push(small_run: Warehouse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Push:
    def push(hub: Hub, *arguments: str, token: str = "secret") -> tuple[int, str, str]:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_TOKEN", token)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        capsys.readouterr()  # what reading data sets has printed
        code = run(["releases", "push", *arguments, "--root", str(small_run.root)])
        return code, *capsys.readouterr()

    return push


def test_a_release_is_pushed_only_when_it_is_asked_for(small_run: Warehouse, tmp_path: Path, push: Push) -> None:
    release = read_release(small_run, newest_release(small_run))
    with running_hub() as hub:
        code, out, _ = push(hub, "team/rows")
        assert code == 0 and "nothing was sent" in out and not (hub.made or hub.commits)
        code, _, said = push(hub, "team/rows", "--upload", token="wrong")
        assert code == 1 and not hub.commits and said.count("\n") == 1 and said.startswith("team/rows: ")
        code, out, said = push(hub, "team/rows", "--upload")
    assert code == 0, said
    assert "pushed to" in out and hub.commits == [f"Release {release.name}"]
    assert [(made["type"], made["name"], made["visibility"]) for made in hub.made] == [("dataset", "rows", "private")]
    hashes = {path: hashlib.sha256(content).hexdigest() for path, content in hub.files.items()}
    for file in (*release.files, *release.shards):
        assert file.path == "README.md" or hashes[file.path] == file.sha256
    assert "../" not in hub.files["README.md"].decode()
    copy = tmp_path / "copy"
    for path, content in hub.files.items():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_bytes(content)
    rows = load_dataset(str(copy), "sft", split="train", cache_dir=str(tmp_path / "cache"))
    assert rows.num_rows > 5
    for repository in ("team/rows", "a/b/c", "rows"):
        code, _, said = push(hub, repository, "--upload")
        assert code == 1 and said.startswith(f"{repository}: ") and said.count("\n") == 1, "nobody answers there now"
