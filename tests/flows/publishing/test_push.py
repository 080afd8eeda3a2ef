"""`trajmill releases push` against a hub behind a real socket."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import load_dataset

from tests.flows.publishing.hub import Hub, running_hub
from trajmill.flows.cli.app import run
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import newest_release, read_release

pytestmark = pytest.mark.slow
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
    for repository in ("team/rows", "a/b/c"):
        code, _, said = push(hub, repository, "--upload")
        assert code == 1 and said.startswith(f"{repository}: ") and said.count("\n") == 1, "nobody answers there now"
