"""`trajmill releases push` against a hub behind a real socket, in a process of its own, as users start it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from datasets import load_dataset

from tests.flows.publishing.hub import Hub, running_hub
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import newest_release, read_release

pytestmark = pytest.mark.slow


def push(warehouse: Warehouse, hub: Hub, home: Path, *arguments: str, token: str = "secret") -> tuple[int, str, str]:
    settings = {"HF_ENDPOINT": hub.address, "HF_TOKEN": token, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-c", "from trajmill.flows.cli.app import main; main()", "releases", "push", *arguments]
    done = subprocess.run(
        [*command, "--root", str(warehouse.root)],
        env={name: value for name, value in os.environ.items() if not name.startswith("HF_")} | settings,
        capture_output=True,
        text=True,
        timeout=500,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_release_is_pushed_only_when_it_is_asked_for(small_run: Warehouse, tmp_path: Path) -> None:
    release = read_release(small_run, newest_release(small_run))
    with running_hub() as hub:
        code, out, _ = push(small_run, hub, tmp_path, "team/rows")
        assert code == 0 and "nothing was sent" in out and not (hub.made or hub.commits)
        code, _, said = push(small_run, hub, tmp_path, "team/rows", "--upload", token="wrong")
        assert code == 1 and not hub.commits and said.count("\n") == 1 and said.startswith("team/rows: ")
        code, out, said = push(small_run, hub, tmp_path, "team/rows", "--upload")
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


def test_a_hub_that_does_not_answer_is_one_line(small_run: Warehouse, tmp_path: Path) -> None:
    with running_hub() as hub:
        pass
    code, _, said = push(small_run, hub, tmp_path, "team/rows", "--upload")
    assert code == 1 and said.startswith("team/rows: ") and said.count("\n") == 1
    code, _, said = push(small_run, hub, tmp_path, "a/b/c", "--upload")
    assert code == 1 and "Traceback" not in said
