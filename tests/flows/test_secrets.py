"""A server echoes the key that it was sent wherever it can; the key is then nowhere but in the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.flows.served_judge import opinion
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.sql import run_sql

pytestmark = pytest.mark.slow

_KEY = "sk-told/nobody+5f3a9c"
_FORMS = (_KEY, quote(_KEY, safe=""), _KEY.replace("/", r"\/"), b64encode(f":{_KEY}".encode()).decode()[2:-3])
_CONFIG = """
[run]
name = "echo"
root = "{root}"
rounds = 1
[queries]
train = 8
heldout_slots = 2
heldout_phrasings = 2
heldout_apps = 0
validation = 2
[rollout]
episodes_per_round = 8
workers = 2
[judge]
precision_floor = 0.0
[train]
min_updates = 1
max_updates = 2
[evaluate]
episodes = 1
train_sample = 1
[models.critic]
text = ["echo"]
[endpoints.echo]
kind = "openai_api"
model = "tiny"
urls = ["{url}"]
api_key_variable = "ECHOED"
attempts = 1
"""


class _Echo(BaseHTTPRequestHandler):
    refuses = False
    done: Counter[str] = Counter()

    def do_GET(self) -> None:
        self._refuse() if self.refuses else self._answer(200, {"data": [{"id": "tiny"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        way = ("reply", "refusal", "header")[self.done.total() % 3]
        self.done[way] += 1
        if way == "refusal":
            self._refuse()
        elif way == "header":
            # No header of HTTP: the client's error quotes it.
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX \xff " + self.headers["Authorization"].encode() + b"\r\n\r\n")
        else:
            text = (
                opinion(body).replace("moved on", " ".join(_FORMS)).replace("it moved", self.headers["Authorization"])
            )
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._answer(200, {"choices": [choice]})

    def _refuse(self) -> None:
        self._answer(401, {"error": {"message": f"no such key: {' '.join(_FORMS)}, {self.headers['Authorization']}"}})

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Echo", self.headers["Authorization"])
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    _Echo.refuses, _Echo.done = False, Counter()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_an_echoed_key_is_stored_and_printed_nowhere(url: str, prefect_home: Path, tmp_path: Path) -> None:
    root, config = tmp_path / "warehouse", tmp_path / "echo.toml"
    config.write_text(_CONFIG.format(root=root, url=url))
    variables = os.environ | {"ECHOED": _KEY, "PREFECT_HOME": str(prefect_home)}

    def evolve(*options: str) -> str:
        command = [
            sys.executable,
            "-c",
            "from trajmill.flows.cli import main; main()",
            "evolve",
            "--config",
            str(config),
        ]
        ended = subprocess.run([*command, *options], env=variables, capture_output=True, text=True, cwd=tmp_path)
        return ended.stdout + ended.stderr

    output = evolve()
    assert len(_Echo.done) == 3, output
    _Echo.refuses = True
    config.write_text(config.read_text().replace("rounds = 1", "rounds = 2"))
    refused = evolve("--traceback")
    assert "401" in refused and "***" in refused and "Traceback" in refused, refused
    errors = run_sql(open_warehouse(root), "SELECT error FROM model_calls WHERE error IS NOT NULL")
    assert any("401" in str(error) and "***" in str(error) for error in errors.to_pylist()), errors
    # Parquet is compressed: its values are read, too.
    stored = [output, refused, str(run_sql(open_warehouse(root), "SELECT * FROM model_calls").to_pylist())]
    stored += [
        str(run_sql(open_warehouse(root), f"SELECT * FROM {table}").to_pylist())
        for table in ("step_verdicts", "trajectory_verdicts", "judgements", "failures", "guidance", "examples")
    ]
    assert any("***" in text for text in stored)
    for folder in (root, prefect_home):
        stored += [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]
    assert not [text[: text.index(form) + 40][-300:] for text in stored for form in _FORMS if form in text]
