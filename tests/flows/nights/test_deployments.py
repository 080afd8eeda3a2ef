from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.flows.nights.conftest import Inbox
from tests.flows.served_judge import opinion
from tests.flows.synthetic_run import policy_version, write_run
from tests.stages.importing import samples
from tests.stages.models.fault_server import Fault, running_server
from tests.warehouse.samples import commit_rows, judgement, stage_run
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config
from trajmill.flows.evolve import LANDED, accepted_since_training
from trajmill.flows.new_run import begun_runs
from trajmill.flows.nights.deployments import deployments
from trajmill.flows.nights.log import remember_server
from trajmill.flows.nights.retrain import retrain
from trajmill.flows.status.page import flow_runs
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse

pytestmark = pytest.mark.slow

ENOUGH = 2

FILE = """
[run]
rounds = 1
[queries]
train = 8
heldout_slots = 2
heldout_phrasings = 0
heldout_apps = 0
validation = 2
[rollout]
episodes_per_round = 4
concurrency = 4
[judge]
precision_floor = 0.0
votes = 1
quorum = 1
resolutions = [0.5]
[train]
min_updates = 2
max_updates = 3
[evaluate]
episodes = 2
train_sample = 0
[endpoints.tiny]
urls = ["{url}"]
model = "tiny"
[models.critic]
step = "tiny"
text = ["tiny"]
multimodal = ["tiny"]
[serve]
retrain_after_accepted = {enough}
"""


def flow_of(deployment: dict[str, Any]) -> str:
    return str(deployment["entrypoint"]).rpartition(".")[2]


class Served(NamedTuple):
    """A running `trajmill serve`."""

    process: subprocess.Popen[bytes]
    api: str
    root: Path
    environment: dict[str, str]

    def ask(self, path: str) -> list[dict[str, Any]]:
        request = urllib.request.Request(
            f"{self.api}/{path}/filter", data=b"{}", headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=200) as answer:
            rows: list[dict[str, Any]] = json.load(answer)
        return rows

    def commands(self, *lines: str) -> str:
        """What commands print, one after the other, typed where the configuration lies."""
        code = f"from trajmill.flows.cli.app import run\nfor line in {lines!r}: assert run(line.split()) == 0, line"
        done = subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            env=self.environment,
            cwd=self.root.parent,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout

    def runs_of(self, deployment: str) -> list[tuple[str, str]]:
        """State and message of the runs of a deployment that were not put there by a schedule, the first one first."""
        ids = {row["id"] for row in self.ask("deployments") if flow_of(row) == deployment}
        rows = (row for row in self.ask("flow_runs") if row["deployment_id"] in ids and not row["auto_scheduled"])
        ordered = sorted(rows, key=lambda row: str(row["created"]))
        return [(row["state"]["name"], row["state"]["message"] or "") for row in ordered]


def serve(folder: Path, environment: dict[str, str], *options: str) -> subprocess.Popen[bytes]:
    with (folder / "words").open("wb") as words:
        return subprocess.Popen(
            [sys.executable, "-c", "from trajmill.flows.cli.app import main; main()", "serve", *options],
            cwd=folder,
            env=environment,
            stdout=words,
            stderr=words,
        )


@pytest.fixture
def judge_url() -> Iterator[str]:
    with running_server([Fault.NONE], writes=opinion) as server:
        yield server.url


@pytest.fixture
def served(prefect_home: Path, judge_url: str, tmp_path: Path) -> Iterator[Served]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "trajmill.toml").write_text(FILE.format(url=judge_url, enough=ENOUGH))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment["PREFECT_HOME"] = str(prefect_home)
    process = serve(tmp_path / "first", environment, "--port", str(port))
    api = f"http://127.0.0.1:{port}/api"
    served = Served(process, api, tmp_path / "first" / "trajmill-data", environment | {"PREFECT_API_URL": api})
    try:
        yield served
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def wait_for(what: Callable[[], bool], seconds: float = 500) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if what():
                return True
        except OSError:
            pass
        time.sleep(0.5)
    return False


def test_the_deployments_are_served_and_an_import_that_brings_enough_starts_the_retraining(
    served: Served, inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert wait_for(lambda: {flow_of(row) for row in served.ask("deployments")} == {"nightly", "retrain", "maintain"})
    (nightly,) = (row for row in served.ask("deployments") if flow_of(row) == "nightly")
    assert [schedule["schedule"]["cron"] for schedule in nightly["schedules"]] == ["0 2 * * *"]
    with urllib.request.urlopen(f"{served.api.removesuffix('api')}ui-settings", timeout=200) as answer:
        assert json.load(answer)["api_url"] == served.api, "the page asks the server that shows it"
    assert wait_for(lambda: any(row["auto_scheduled"] for row in served.ask("flow_runs")))

    # A second run is served by the same server; what lands in the first one is none of its business.
    folder = tmp_path / "second"
    folder.mkdir()
    (folder / "trajmill.toml").write_text(f'[run]\nname = "second"\n[notify]\nwebhook = "{inbox.webhook}"\n')
    second = serve(folder, served.environment)
    all_six = sorted(f"{flow}/{name}" for flow in ("maintain", "nightly", "retrain") for name in ("default", "second"))
    assert wait_for(lambda: sorted(f"{flow_of(row)}/{row['name']}" for row in served.ask("deployments")) == all_six)

    first, both = tmp_path / "one", tmp_path / "both"
    one, other = (samples.android_control_record(episode, goal=f"set alarm {episode}") for episode in (1, 2))
    samples.write(first, "android_control-0", samples.tfrecords([one]))
    samples.write(both, "android_control-0", samples.tfrecords([one, other]))
    said = served.commands("generate", f"import android-control {first}", f"import android-control {both}")
    assert re.findall(r"(\d+) accepted since", said) == ["1", "2"]
    assert wait_for(lambda: any(name == "Trained" for name, _ in served.runs_of("retrain")))
    # The round has landed trajectories, too, so the event may have come again; then nothing was new.
    (name, line), *others = served.runs_of("retrain")
    assert name == "Trained" and re.match(r"round 1, 2 newly accepted trajectories: (not )?promoted, ", line)
    assert {other for other, _ in others} <= {"Late", "Scheduled", "Pending", "Running", "NotEnough"}
    assert served.runs_of("nightly") == []

    runs = flow_runs(*only_run(served.root))
    assert {run.flow for run in runs.last} == {"retrain"} and {run.flow for run in runs.next} >= {"nightly", "maintain"}
    of_second = flow_runs(*only_run(folder / "trajmill-data"))
    assert of_second.last == () and of_second.address == served.api
    assert {run.flow for run in of_second.next} == {"nightly", "maintain"}

    for process in (second, served.process):
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0
    for place in (folder, served.root.parent):
        assert "Traceback" not in (place / "words").read_text(encoding="utf-8")
    assert inbox.received == []

    # The nights go by without `serve`; its next start notifies people, once.
    warehouse, run_id = only_run(folder / "trajmill-data")
    remember_server(warehouse, run_id, served.api, datetime.now(UTC))
    file = warehouse.run(run_id) / "served.json"
    file.write_text(file.read_text().replace(datetime.now(UTC).strftime('"since":"%Y'), '"since":"2020'))
    alone = {name: value for name, value in served.environment.items() if name != "PREFECT_API_URL"}
    again = serve(folder, alone, "--port", served.api.removesuffix("/api").rpartition(":")[2])
    assert wait_for(lambda: bool(inbox.received))
    again.send_signal(signal.SIGINT)
    again.wait(300)
    (message,) = inbox.received
    assert message["subject"] == "trajmill: nightly/second did not happen" and message["run"] == run_id


def only_run(root: Path) -> tuple[Warehouse, str]:
    warehouse = open_warehouse(root)
    (run,) = begun_runs(warehouse)
    return warehouse, run


def test_the_deployments_say_what_starts_them(tmp_path: Path) -> None:
    config = Config.model_validate({"serve": {"cron": "5 4 * * *"}, "run": {"root": tmp_path}})
    nightly, retraining, maintaining = deployments(config, tmp_path / "trajmill.toml")
    for each in (nightly, retraining, maintaining):
        assert each.parameters == {"config_file": str(tmp_path / "trajmill.toml")}
        assert each.paused is False, "else they stay as the end of the last `trajmill serve` has left them: paused"
    assert "0 12 * * 0" in str(maintaining.schedules)
    assert (nightly.entrypoint, retraining.entrypoint) == (
        "trajmill.flows.nights.nightly.nightly",
        "trajmill.flows.nights.retrain.retrain",
    )
    assert "5 4 * * *" in str(nightly.schedules)
    (trigger,) = retraining.triggers
    assert LANDED in str(trigger)


def test_only_what_was_judged_correct_since_the_last_training_counts(tmp_path: Path) -> None:
    config = Config.model_validate({"run": {"root": tmp_path / "warehouse"}})
    warehouse = create_warehouse(config.run.root)
    assert accepted_since_training(config) == 0
    first, second = (stage_run("judge", number, config.run_id) for number in (1, 2))
    commit_rows(warehouse, first, judgement("a", first, correct=True), judgement("b", first, correct=False))
    commit_rows(warehouse, second, judgement("c", second, correct=True), judgement("d", second, correct=False))
    assert accepted_since_training(config) == 2
    write_run(warehouse, rounds=1)
    assert accepted_since_training(config) == 2
    promote = stage_run("promote", 1, config.run_id)
    commit_rows(warehouse, promote, policy_version(promote, 2))
    assert accepted_since_training(config) == 1


def test_a_retraining_without_enough_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: None
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = retrain(return_state=True)
    assert ended.message == "did not train: 0 trajectories accepted since the last training, 200 are enough"
    assert (
        sorted(path.name for path in Path(load_config().run.root).iterdir() if path.is_dir() and any(path.iterdir()))
        == []
    )
