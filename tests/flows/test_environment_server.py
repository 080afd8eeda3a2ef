"""`trajmill env serve` as a process, to trainers and to runs on other machines."""

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from tests.built_once import copy_of
from tests.stages.environments.processes import eventually
from trajmill.flows.configuration.config import Config, QueriesSection, RolloutSection, RunSection
from trajmill.flows.configuration.file import load_config
from trajmill.flows.configuration.tables import config_as_toml
from trajmill.flows.environment_server import serve_environment
from trajmill.flows.serving.listening import url_of
from trajmill.flows.stage import RoundContext
from trajmill.flows.status.page import status_of
from trajmill.flows.tasks.generate import generate
from trajmill.flows.walk import walk
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.trajectory import Purpose, Step, Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.environments.kinds import OpenEnvSpec
from trajmill.stages.environments.openenv.client import EnvironmentClient
from trajmill.stages.environments.openenv.wire import WireAction
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow

_EPISODES = 6
_QUERIES = QueriesSection(train=_EPISODES, heldout_slots=1, heldout_phrasings=0, heldout_apps=0)


class _Server:
    """A process of `trajmill env serve`."""

    def __init__(self, generated: Path, folder: Path, *options: str, commit_seconds: float = 60.0) -> None:
        self.root = folder / "data"
        if not self.root.exists():
            copy_of(generated, self.root)
        config = folder / "trajmill.toml"
        config.write_text(config_as_toml(Config(run=RunSection(root=self.root, name="served"), queries=_QUERIES)))
        self.said = folder / "stderr"
        script = f"import trajmill.flows.environment_server as server; server._COMMIT_SECONDS = {commit_seconds}; "
        command = [sys.executable, "-c", f"{script}from trajmill.flows.cli import main; main()", "env", "serve"]
        self.process = subprocess.Popen(
            [*command, "--config", str(config), "--port", "0", *options],
            stdout=subprocess.PIPE,
            # Not a pipe: the processes that draw keep it open for a moment after a kill.
            stderr=self.said.open("w"),
            text=True,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
        )

    def address(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("http://"), self.end()
        return line.split()[0]

    def end(self, number: signal.Signals = signal.SIGINT) -> str:
        """Send a signal, and return what the process said on standard error."""
        self.process.send_signal(number)
        self.process.wait(200)
        return self.said.read_text()


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the queries of the run: servers need not load what makes them."""
    folder = tmp_path_factory.mktemp("generated")
    generate(RoundContext.of(Config(run=RunSection(root=folder, name="served"), queries=_QUERIES), 0))
    return folder


@contextmanager
def _serving(*servers: _Server) -> Iterator[list[str]]:
    try:
        yield [server.address() for server in servers]
    finally:
        for server in servers:
            server.end(signal.SIGKILL)


def _trajectories(root: Path) -> list[Trajectory]:
    return read_rows(open_warehouse(root), Trajectory)


def test_a_run_goes_on_when_one_of_its_two_servers_is_killed(generated: Path, tmp_path: Path) -> None:
    options, root = ("--slots", "4", "--split", "train"), tmp_path / "data"
    doomed, other = (_Server(generated, tmp_path / name, *options) for name in "ab")
    with _serving(doomed, other) as addresses, ThreadPoolExecutor(1) as thread:
        config = Config(
            run=RunSection(root=root, name="far"),
            environment=OpenEnvSpec(servers=tuple(addresses)),
            queries=QueriesSection(train=1),
            rollout=RolloutSection(concurrency=4),
        )
        killing = thread.submit(_kill_after, doomed, root, 1)
        walk(config, queries=_EPISODES)
        killing.result()
    trajectories, warehouse = _trajectories(root), open_warehouse(root)
    assert len(trajectories) == len({trajectory.trajectory_id for trajectory in trajectories}) == _EPISODES
    # Clients get no path, so the walk explores; the reward is what the server's check says.
    assert {(each.status, each.reward is not None, each.environment) for each in trajectories} == {
        ("finished", True, "openenv")
    }
    steps = [(step.trajectory_id, step.index) for step in read_rows(warehouse, Step)]
    assert len(steps) == len(set(steps)) == sum(trajectory.steps for trajectory in trajectories)
    lost = [failure.message for failure in read_rows(warehouse, Failure)]
    assert lost and all("the connection was lost" in each and "finished the attempt" in each for each in lost)
    # Whoever rolls out records; the servers do not.
    assert _trajectories(other.root) == []


def _kill_after(server: _Server, root: Path, episodes: int) -> None:
    journals = "staging/*/*-walk/episodes-*.jsonl"
    eventually(lambda: sum(path.read_bytes().count(b"\n") for path in root.glob(journals)) >= episodes)
    server.end(signal.SIGKILL)


def test_every_finished_episode_survives_a_kill_and_a_failing_commit_is_told(generated: Path, tmp_path: Path) -> None:
    first = _Server(generated, tmp_path / "a", "--judge", "judge", commit_seconds=1000.0)
    with _serving(first) as (address,):
        for seed in (0, 1):
            _episode(address, seed)
        with EnvironmentClient(address, policy="mine") as client:
            client.reset(seed=9)
        first.end(signal.SIGKILL)
    assert _trajectories(first.root) == []
    (journal,) = first.root.glob("staging/*/**/episodes.jsonl")
    whole = journal.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    broken = last.replace(b'"seed":1', b'"seed":null').replace(b'"trajectory_id":"', b'"trajectory_id":"0')
    journal.write_bytes(broken + b"no record\n" + whole)

    server = _Server(generated, tmp_path / "a", commit_seconds=0.2)
    with _serving(server) as (address,):
        warehouse = open_warehouse(server.root)
        assert sorted(each.seed for each in _trajectories(server.root)) == [0, 1]
        failures = read_rows(warehouse, Failure)
        assert {(each.stage, each.failure_class, each.attempts) for each in failures} == {("online", "record", 1)}
        set_aside = {Path(each.message.rpartition("it is ")[2]).read_bytes() for each in failures}
        assert set_aside == {broken, b"no record\n"}
        assert httpx.get(f"{address}/health").status_code == 200

        # The marker of the next batch cannot be written, after its rows are in the tables.
        marker = journal.parent.with_name(f"{journal.parent.name}-a1") / "done.json"
        marker.mkdir(parents=True)
        for seed in (0, 3):
            _episode(address, seed)
            eventually(lambda: httpx.get(f"{address}/health").status_code == 503)
        assert "`trajmill env serve` cannot commit its episodes, and tries again: " in _status(tmp_path / "a")
        marker.rmdir()
        eventually(lambda: httpx.get(f"{address}/health").status_code == 200)
        eventually(lambda: len(_trajectories(server.root)) == 4)
        assert "cannot commit" not in _status(tmp_path / "a")
        assert "the episodes cannot be committed" in (said := server.end()) and "KeyboardInterrupt" not in said
        assert server.process.returncode == 0
    trajectories = _trajectories(server.root)
    assert sorted((each.seed, each.attempt) for each in trajectories) == [(0, 0), (0, 1), (1, 0), (3, 0)]
    assert {(each.purpose, each.agent, each.model_version, each.reward) for each in trajectories} == {
        (Purpose.ONLINE, "online", "mine", 0.0)
    }
    assert len(read_rows(warehouse, Judgement)) == 2
    steps = Counter((step.trajectory_id, step.index) for step in read_rows(warehouse, Step))
    assert (len(steps), set(steps.values())) == (4, {1})


def _episode(address: str, seed: int) -> None:
    with EnvironmentClient(address, policy="mine") as client:
        client.reset(seed=seed)
        client.step(WireAction(reply="nothing"))
        assert client.finish().reward == 0.0


def _status(folder: Path) -> str:
    config = load_config(folder / "trajmill.toml")
    return "\n".join(status_of(RoundContext.of(config)).lines)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"splits": ("trian",)}, "there is no split 'trian'; did you mean train?"),
        ({"splits": ("heldout_apps",)}, "no query is of split heldout_apps; there are heldout_slots, train"),
        ({"family": "qwen2-vl"}, "no model family is named 'qwen2-vl'; did you mean"),
        ({"judge": "jugde"}, "there is no judge 'jugde' in the configuration; did you mean judge?"),
        ({"host": "0.0.0.0"}, "others can reach it; name a file with a secret by --token-file, or use 127.0.0.1"),
        ({"token_file": Path("nowhere")}, "nowhere: "),
        ({"host": "no.such.host.invalid"}, "no.such.host.invalid"),
    ],
)
def test_what_cannot_be_served_gives_one_error_line(tmp_path: Path, options: dict[str, Any], line: str) -> None:
    config = Config(run=RunSection(root=tmp_path), queries=_QUERIES)
    with pytest.raises(BadInputError) as error:
        serve_environment(config, print, **{"port": 0} | options)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_a_taken_port_gives_one_error_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(BadInputError, match="name another"):
        serve_environment(Config(run=RunSection(root=tmp_path)), print, port=other.getsockname()[1])


def test_an_ipv6_address_stands_in_brackets() -> None:
    listener = Mock(getsockname=lambda: ("::1", 8000, 0, 0))
    assert url_of(listener) == "http://[::1]:8000"
