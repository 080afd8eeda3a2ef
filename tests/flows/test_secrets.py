"""A server echoes the key that it was sent wherever it can; the key is then nowhere but in the environment."""

import json
from base64 import b64encode
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker

from tests.bucket_server import environment_for
from tests.flows.runs import changed, opinion, smallest_config
from tests.http_server import QuietHandler, serving
from tests.warehouse.test_releases import export_and_release
from trajmill.flows.cli.app import run
from trajmill.flows.configuration.file import load_config
from trajmill.flows.configuration.sections import CriticRoles, ModelsSection, NotifySection
from trajmill.flows.configuration.tables import config_as_toml
from trajmill.flows.new_run import begin_or_continue
from trajmill.flows.nights.nightly import nightly
from trajmill.schemas.errors import TrajmillError
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.warehouse.layout import create_warehouse, open_warehouse
from trajmill.warehouse.sql import run_sql

pytestmark = pytest.mark.slow

_HOOK = "T0/B1/hook-of-the-team"
_KEY = "sk-told/nobody+5f3a9c"
_OTHER_KEY = "sk-kept/anyone+7c1d20"
"""Of the run, whose Prefect server has met the first one."""


def forms(key: str) -> tuple[str, ...]:
    return (key, quote(key, safe=""), key.replace("/", r"\/"), b64encode(f":{key}".encode()).decode()[2:-3])


_FORMS = forms(_KEY)


def config(root: Path, url: str, rounds: int = 1, **tables: object) -> str:
    """A small run with a critic on the server, as TOML."""
    echo = OpenAiSpec(model="tiny", urls=(url,), api_key_variable="ECHOED", attempts=1)
    named: dict[str, object] = {
        "endpoints": {"echo": echo},
        "models": ModelsSection(critic=CriticRoles(text=("echo",))),
    }
    named |= {"rollout": {"episodes_per_round": 8, "workers": 2}, "guidance": {"enabled": True}}
    return config_as_toml(changed(smallest_config(root, rounds), **named, **tables))


class _Refusing(QuietHandler):
    """Refuses everything, and echoes the key in the status line, in a header and in the body."""

    def reply(self) -> None:
        key = self.headers.get("Authorization") or self.headers.get("X-Amz-Security-Token") or _KEY
        body = json.dumps({"error": f"{key} {' '.join(_FORMS)} is not allowed"}).encode()
        self.answer(body, 401, f"no {key}", X_Error_Message=key)


class _Echo(QuietHandler):
    refuses = False
    asked = count()
    done: set[str] = set()

    def reply(self) -> None:
        way = "refusal" if self.refuses else "list"
        if self.command == "POST":
            way = ("reply", "refusal", "header")[next(self.asked) % 3]
            self.done.add(way)
        if way == "refusal":
            self._refuse()
        elif way == "list":
            self._say({"data": [{"id": "tiny"}]})
        elif way == "header":
            # No header of HTTP: the client's error quotes it.
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX \xff " + self.key.encode() + b"\r\n\r\n")
        else:
            text = opinion(json.loads(self.body)).replace("it moved", self.key)
            text = text.replace("moved on", " ".join(forms(_OTHER_KEY)))
            message = {"role": "assistant", "content": text}
            self._say({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    @property
    def key(self) -> str:
        return self.headers["Authorization"]

    def _refuse(self) -> None:
        self._say({"error": {"message": f"no such key: {' '.join(forms(_OTHER_KEY))}, {self.key}"}}, 401)

    def _say(self, body: object, status: int = 200) -> None:
        self.answer(json.dumps(body).encode(), status, X_Echo=self.key)


def drain() -> None:
    """Wait for what Prefect's threads have yet to send."""
    for worker in (EventsWorker, APILogWorker):
        worker.drain_all(timeout=60.0, at_exit=False)


@pytest.fixture
def refusing() -> Iterator[str]:
    with serving(_Refusing) as url:
        yield url


@pytest.mark.parametrize(
    ("variable", "address", "commands"),
    [
        ("PREFECT_API_KEY", "PREFECT_API_URL", ["status --config trajmill.toml", "doctor"]),
        ("PREFECT_API_AUTH_STRING", "PREFECT_API_URL", ["status --config trajmill.toml", "doctor"]),
        ("HF_TOKEN", "HF_ENDPOINT", ["releases push team/rows --upload"]),
        ("AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", ["status --root s3://b/here", "--traceback status --root s3://b/c"]),
    ],
)
def test_a_service_that_echoes_its_key_is_quoted_without_it(
    refusing: str,
    variable: str,
    address: str,
    commands: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment_for(refusing, tmp_path / "caches").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(address, refusing)
    monkeypatch.setenv(variable, _KEY)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trajmill.toml").touch()
    warehouse = create_warehouse(tmp_path / "trajmill-data")
    export_and_release(warehouse, "run-a-r1")
    for command in commands:
        run(command.split())
        output = "".join(capfd.readouterr())
        assert "401" in output or "denies" in output or "does not answer" in output, output
        assert not [form for form in _FORMS if form in output], output
    stored = [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    assert not [form for text in stored for form in _FORMS if form in text]


def test_a_failing_night_logs_no_key(
    refusing: str, prefect_server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key stands in an error behind the error, in the address of the webhook, and in what the webhook answers."""
    monkeypatch.setenv("ECHOED", _KEY)
    root = tmp_path / "warehouse"
    notify = NotifySection(webhook=f"{refusing}/{_HOOK}", heartbeat=refusing)
    (tmp_path / "trajmill.toml").write_text(config(root, refusing, notify=notify))
    begin_or_continue(load_config(tmp_path / "trajmill.toml"))

    def collect(_: object) -> None:
        try:
            raise ConnectionError(f"refused: Bearer {_KEY}, for {refusing}/{_HOOK}")
        except ConnectionError as error:
            raise TrajmillError(f"the night failed: {error}") from error

    monkeypatch.setattr("trajmill.flows.nights.nightly.collect_night", collect)
    assert nightly(str(tmp_path / "trajmill.toml"), return_state=True).name == "Failed"
    drain()
    with get_client(sync_client=True) as client:
        (flow_run,) = (each for each in client.read_flow_runs() if str(tmp_path) in str(each.parameters))
        logs = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run.id])))
    assert any("Traceback" in log.message and "***" in log.message for log in logs), logs
    stored = [log.message for log in logs]
    stored += [path.read_bytes().decode("latin-1") for path in root.rglob("*") if path.is_file()]
    assert any("the night failed" in text for text in stored)
    assert not [text for text in stored for form in (*_FORMS, _HOOK) if form in text]


@pytest.fixture
def url() -> Iterator[str]:
    _Echo.refuses, _Echo.done = False, set()
    with serving(_Echo) as url:
        yield f"{url}/v1"


def test_an_echoed_key_is_stored_and_printed_nowhere(
    url: str, prefect_server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root, file = tmp_path / "warehouse", tmp_path / "echo.toml"
    monkeypatch.setenv("ECHOED", _OTHER_KEY)

    def evolve(rounds: int, *options: str) -> str:
        file.write_text(config(root, url, rounds))
        run(["evolve", "--config", str(file), *options])
        return "".join(capfd.readouterr())

    output = evolve(1)
    assert len(_Echo.done) == 3, output
    _Echo.refuses = True
    refused = evolve(2, "--traceback")
    assert "401" in refused and "***" in refused and "Traceback" in refused, refused
    errors = run_sql(open_warehouse(root), "SELECT error FROM model_calls WHERE error IS NOT NULL")
    assert any("401" in str(error) and "***" in str(error) for error in errors.to_pylist()), errors
    tables = ("model_calls", "step_verdicts", "trajectory_verdicts", "judgements", "failures", "guidance", "examples")
    rows = (str(run_sql(open_warehouse(root), f"SELECT * FROM {table}").to_pylist()) for table in tables)
    stored = [output, refused, *rows]
    assert any("***" in text for text in stored)
    drain()
    for folder in (root, prefect_server):
        stored += [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]
    assert not [text[: text.index(form) + 40][-300:] for text in stored for form in forms(_OTHER_KEY) if form in text]
