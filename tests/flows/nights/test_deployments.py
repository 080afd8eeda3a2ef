import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, temporary_settings

from tests.flows.command_line import CommandLine
from tests.flows.runs import changed, opinion, smallest_config
from tests.stages.importing import samples
from tests.stages.models.fault_server import Fault, running_server
from trajmill.flows.cli.app import run
from trajmill.flows.configuration.config import Config, JudgeSection
from trajmill.flows.configuration.sections import CriticRoles, ModelsSection
from trajmill.flows.configuration.tables import config_as_toml
from trajmill.flows.new_run import begin_or_continue, begun_runs, run_resource
from trajmill.flows.nights.log import remember_server
from trajmill.flows.nights.nightly import deploy_to, deployments, refuse_to_replace
from trajmill.flows.status.page import flow_runs
from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.warehouse.layout import create_warehouse, open_warehouse

pytestmark = pytest.mark.slow


def judged_by(root: Path, url: str) -> Config:
    """The smallest round, whose critics are on a server, and which two accepted trajectories retrain."""
    return changed(
        smallest_config(root),
        judge=JudgeSection(precision_floor=0.0, votes=1, quorum=1, resolutions=(0.5,)),
        endpoints={"tiny": OpenAiSpec(model="tiny", urls=(url,))},
        models=ModelsSection(critic=CriticRoles(step="tiny", text=("tiny",), multimodal=("tiny",))),
        serve={"retrain_after_accepted": 2},
    )


def flow_of(deployment: dict[str, Any]) -> str:
    return str(deployment["entrypoint"]).rpartition(".")[2]


class Served(NamedTuple):
    """A running `trajmill serve`."""

    process: subprocess.Popen[bytes]
    api: str
    folder: Path
    home: Path

    def ask(self, path: str, **wanted: object) -> list[dict[str, Any]]:
        headers, body = {"Content-Type": "application/json"}, json.dumps(wanted).encode()
        request = urllib.request.Request(f"{self.api}/{path}/filter", data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=200) as answer:
            rows: list[dict[str, Any]] = json.load(answer)
        return rows

    def runs_of(self, deployment: str) -> list[tuple[str, str]]:
        """State and message of the runs of a deployment that were not put there by a schedule, the first one first."""
        found = self.ask("flow_runs", flows={"name": {"any_": [deployment]}})
        rows = (row for row in found if not row["auto_scheduled"])
        ordered = sorted(rows, key=lambda row: str(row["created"]))
        return [(row["state"]["name"], row["state"]["message"] or "") for row in ordered]


@pytest.fixture
def served(prefect_home: Path, tmp_path: Path) -> Iterator[Served]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    folder, main = tmp_path / "first", "from trajmill.flows.cli.app import main; main()"
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment["PREFECT_HOME"] = str(prefect_home)
    # By default the server inserts a hundred runs for each deployment, and shows them to whoever asks.
    environment["PREFECT_SERVER_SERVICES_SCHEDULER_MAX_RUNS"] = "3"
    with running_server([Fault.NONE], writes=opinion) as judge, (folder / "words").open("wb") as words:
        (folder / "trajmill.toml").write_text(config_as_toml(judged_by(folder / "trajmill-data", judge.url)))
        command = [sys.executable, "-c", main, "serve", "--port", str(port)]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=words, stderr=words)
        api = f"http://127.0.0.1:{port}/api"
        try:
            yield Served(process, api, folder, prefect_home)
        finally:
            process.kill()
            process.wait()


def wait_for(what: Callable[[], bool], seconds: float = 500, pause: float = 0.5) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if what():
                return True
        except OSError:
            pass
        time.sleep(pause)
    return False


def test_the_deployments_are_served_and_an_import_that_brings_enough_starts_the_retraining(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", served.api)
    monkeypatch.chdir(served.folder)
    # The thread that sends events keeps the address of its first server, whatever the settings say later.
    EventsWorker.drain_all(timeout=60, at_exit=False)

    def commands(*lines: str) -> str:
        with temporary_settings({PREFECT_API_URL: served.api}):
            assert [run(line.split()) for line in lines] == [0] * len(lines)
        return capsys.readouterr().out

    assert wait_for(lambda: {flow_of(row) for row in served.ask("deployments")} == {"nightly", "retrain", "maintain"})
    (nightly,) = (row for row in served.ask("deployments") if flow_of(row) == "nightly")
    assert [schedule["schedule"]["cron"] for schedule in nightly["schedules"]] == ["0 2 * * *"]
    with urllib.request.urlopen(f"{served.api.removesuffix('api')}ui-settings", timeout=200) as answer:
        assert json.load(answer)["api_url"] == served.api, "the page asks the server that shows it"

    # A second run is deployed at the same server; what lands in the first one is none of its business.
    second = Config.model_validate({"run": {"root": tmp_path / "second", "name": "second"}})
    begin_or_continue(second)
    with temporary_settings({PREFECT_API_URL: served.api}):
        for deployment in deployments(second, None):
            deployment.apply()
    remember_server(create_warehouse(second.run.root), second.run_id, served.api, datetime.now(UTC))
    assert len(served.ask("deployments")) == 6
    shown = commands("status --server")
    named = dict(re.findall("^run       (.*) in (.*)$", shown, re.MULTILINE))
    assert {Path(place).name for place in named.values()} == {"second", "trajmill-data"} and second.run_id in named
    # Prefect's scheduler looks for new deployments every five seconds.
    assert wait_for(lambda: commands("status --server").count("nightly at ") == 2, pause=3)

    first, both = tmp_path / "one", tmp_path / "both"
    one, other = (samples.android_control_record(episode, goal=f"set alarm {episode}") for episode in (1, 2))
    samples.write(first, "android_control-0", samples.tfrecords([one]))
    samples.write(both, "android_control-0", samples.tfrecords([one, other]))
    said = commands("generate", f"import android-control {first}", f"import android-control {both}")
    assert re.findall(r"(\d+) accepted since", said) == ["1", "2"]
    trained = wait_for(lambda: any(name == "Trained" for name, _ in served.runs_of("retrain")), seconds=300, pause=2)
    assert trained, (served.runs_of("retrain"), (served.folder / "words").read_text(encoding="utf-8")[-3000:])
    # The round has landed trajectories, too, so the event may have come again; then nothing was new.
    (name, line), *others = served.runs_of("retrain")
    assert name == "Trained" and re.match(r"round 1, 2 newly accepted trajectories: (not )?promoted, ", line)
    assert {other for other, _ in others} <= {"Late", "Scheduled", "Pending", "Running", "NotEnough"}
    assert served.runs_of("nightly") == []

    warehouse = open_warehouse(served.folder / "trajmill-data")
    runs = flow_runs(warehouse, *begun_runs(warehouse))
    assert {run.flow for run in runs.last} == {"retrain"} and {run.flow for run in runs.next} >= {"nightly", "maintain"}
    of_second = flow_runs(open_warehouse(second.run.root), second.run_id)
    assert of_second.last == () and of_second.address == served.api
    assert {run.flow for run in of_second.next} == {"nightly", "maintain"}

    EventsWorker.drain_all(timeout=60, at_exit=False)
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(300) == 0
    assert "Traceback" not in (served.folder / "words").read_text(encoding="utf-8")
    assert (served.home / "trajmill-server.log").exists(), "not among the files of a run, which may be refused"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *((["--job", given], f"--job {given!r} is not NAME=JSON") for given in ("image", "=1", "image=")),
        (["--worker-config", "../trajmill.toml"], "--worker-config must be an absolute path"),
    ],
)
def test_what_cannot_be_deployed_is_one_line(given: list[str], says: str, tmp_path: Path, command: CommandLine) -> None:
    (tmp_path / "trajmill.toml").write_text("")
    assert says in command.refused("deploy", "--pool", "mine", "--config", tmp_path / "trajmill.toml", *given)


_IMAGE = {"variables": {"properties": {"image": {"type": "string"}}}, "job_configuration": {"image": "{{ image }}"}}


def test_the_deployments_are_registered_at_a_pool(tmp_path: Path, prefect_server: Path) -> None:
    config = Config.model_validate({"run": {"root": tmp_path / "data", "name": "pooled"}})
    there = Path("/data/trajmill.toml")
    with pytest.raises(BadInputError, match=r"no work pool 'mine'.*prefect work-pool create mine --type process"):
        deploy_to("mine", config, there)
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="mine", type="process", base_job_template={}))
        client.create_work_pool(WorkPoolCreate(name="boxes", type="docker", base_job_template=_IMAGE))
        with pytest.raises(BadInputError, match="whose jobs have no image"):
            deploy_to("mine", config, there, image="trajmill:1")
        with pytest.raises(BadInputError, match="name the image"):
            deploy_to("boxes", config, there)
        assert deploy_to("mine", config, there) == ["nightly/pooled", "retrain/pooled", "maintain/pooled"]
        assert deploy_to("boxes", config, there, "trajmill:1", {"image_pull_policy": "Never"})
        nightly, retrain = (client.read_deployment_by_name(f"{flow}/pooled") for flow in ("nightly", "retrain"))
        triggers = client.read_resource_related_automations(f"prefect.deployment.{retrain.id}")
    assert nightly.work_pool_name == retrain.work_pool_name == "boxes"
    assert not nightly.paused, "else it stays as the end of the last `trajmill serve` has left it: paused"
    assert retrain.parameters == {"config_file": "/data/trajmill.toml"}
    assert nightly.job_variables == {"image": "trajmill:1", "image_pull_policy": "Never"}
    resource = run_resource(create_warehouse(config.run.root), config.run_id)
    assert len(triggers) == 1 and resource in triggers[0].model_dump_json() and resource in nightly.tags


def test_two_processes_never_serve_one_run(tmp_path: Path, prefect_server: Path) -> None:
    config = Config.model_validate({"run": {"root": tmp_path / "data", "name": "alone"}})
    for deployment in deployments(config, None):
        deployment.apply()
    with get_client(sync_client=True) as client:
        served = client.read_deployment_by_name("nightly/alone").id
        client.get_scheduled_flow_runs_for_deployments([served])  # as the process does that serves it
    refuse_to_replace(config)
    with pytest.raises(BadInputError, match="another `trajmill serve` serves deployment nightly/alone; end that one"):
        refuse_to_replace(config, alone=True)


def test_a_deployment_of_another_run_is_replaced_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prefect_server: Path
) -> None:
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="shared", type="process", base_job_template={}))

    def deploy(folder: str, *more: str, command: Sequence[str] = ("deploy", "--pool", "shared")) -> int:
        file = tmp_path / folder / "trajmill.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text('[run]\nname = "twin"\n')
        return run([*command, "--config", str(file), *more])

    def parameters() -> object:
        with get_client(sync_client=True) as client:
            return client.read_deployment_by_name("nightly/twin").parameters

    assert deploy("first") == deploy("first") == 0
    first = parameters()
    assert deploy("second") == deploy("second", command=["serve"]) == 1
    line, of_serve = capsys.readouterr().err.splitlines()
    assert line.startswith("deployment nightly/twin belongs to another run (Run twin-") and "--replace" in line
    assert str(tmp_path / "first") in line and line == of_serve and parameters() == first
    assert deploy("second", "--replace", command=["deploy", "--pool", "nowhere"]) == 1
    assert not any((tmp_path / "second/trajmill-data").glob("*/twin-*")), "a refused command leaves no run behind"
    assert deploy("second", "--replace") == 0
    assert parameters() == {"config_file": str(tmp_path / "second" / "trajmill.toml")}
