from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.flows.synthetic_run import policy_version, write_run
from tests.warehouse.samples import commit_rows, judgement, stage_run
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config
from trajmill.flows.landed_event import LANDED, accepted_since_training
from trajmill.flows.nights.deployments import deployments
from trajmill.flows.nights.retrain import retrain
from trajmill.flows.status.flow_runs import flow_runs
from trajmill.warehouse.layout import create_warehouse

pytestmark = pytest.mark.slow

ENOUGH = 2


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
        with urllib.request.urlopen(request, timeout=30) as answer:
            rows: list[dict[str, Any]] = json.load(answer)
        return rows

    def announce(self, *accepted: int) -> None:
        """Tells the server these numbers, one after the other."""
        code = (
            "from pathlib import Path; from trajmill.flows.landed_event import announce_landed\n"
            f"for accepted in {accepted!r}: announce_landed(Path({str(self.root)!r}), accepted, {ENOUGH})"
        )
        subprocess.run([sys.executable, "-c", code], check=True, env=self.environment)

    def runs_of(self, deployment: str) -> list[str]:
        """States of the runs of a deployment that were not put there by a schedule."""
        ids = {row["id"] for row in self.ask("deployments") if row["name"] == deployment}
        return [
            row["state_type"]
            for row in self.ask("flow_runs")
            if row["deployment_id"] in ids and not row["auto_scheduled"]
        ]


@pytest.fixture
def served(prefect_home: Path, tmp_path: Path) -> Iterator[Served]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "trajmill.toml").write_text(f"[serve]\nretrain_after_accepted = {ENOUGH}\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment["PREFECT_HOME"] = str(prefect_home)
    with (tmp_path / "words").open("wb") as words:
        process = subprocess.Popen(
            [sys.executable, "-c", "from trajmill.flows.cli.app import main; main()", "serve", "--port", str(port)],
            cwd=tmp_path,
            env=environment,
            stdout=words,
            stderr=words,
        )
    api = f"http://127.0.0.1:{port}/api"
    served = Served(process, api, tmp_path / "trajmill-data", environment | {"PREFECT_API_URL": api})
    try:
        yield served
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def wait_for(what: Callable[[], bool], seconds: float = 150) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if what():
                return True
        except OSError:
            pass
        time.sleep(0.5)
    return False


@pytest.mark.timeout(500)
def test_the_deployments_are_served_and_enough_landed_starts_the_retraining(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert wait_for(lambda: {row["name"] for row in served.ask("deployments")} == {"nightly", "retrain", "maintain"})
    (nightly,) = (row for row in served.ask("deployments") if row["name"] == "nightly")
    assert [schedule["schedule"]["cron"] for schedule in nightly["schedules"]] == ["0 2 * * *"]
    assert wait_for(lambda: any(row["auto_scheduled"] for row in served.ask("flow_runs")))

    served.announce(ENOUGH - 1, ENOUGH)
    assert wait_for(lambda: "COMPLETED" in served.runs_of("retrain"))
    assert served.runs_of("retrain") == ["COMPLETED"]
    assert served.runs_of("nightly") == []

    runs = flow_runs(served.root)
    assert [(run.deployment, run.state) for run in runs.last] == [("retrain", "NotEnough")]
    assert runs.last[0].line.startswith("did not train: 0 trajectories accepted since the last training, 2 are enough")
    assert {run.deployment for run in runs.next} == {"nightly", "maintain"}

    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(60) == 0
    assert "Traceback" not in (served.root.parent / "words").read_text(encoding="utf-8")


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
