"""What the tests of flows share. What only whole runs need is imported by their fixtures: it is slow to import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.built_once import built_once, copy_of
from tests.flows.command_line import CommandLine
from tests.flows.synthetic_run import write_run
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.flows.policies.network import WaitingRun
    from tests.stages.models.fault_server import FaultServer


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture(scope="session")
def run_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse with two rounds of one run; only the report may be written into it."""
    warehouse = create_warehouse(tmp_path_factory.mktemp("run") / "warehouse")
    write_run(warehouse)
    return warehouse


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The warehouse of a small run that nobody disturbed; not to be written to."""
    from tests.flows.runs import run_stages, small_config

    root = built_once(tmp_path_factory, "small-run", lambda folder: run_stages(small_config(folder)))
    return open_warehouse(root)


@pytest.fixture
def small_copy(small_run: Warehouse, tmp_path: Path) -> Warehouse:
    """A copy of that warehouse, to be written to."""
    return open_warehouse(copy_of(small_run.root, tmp_path / "copy"))


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The warehouse of a tiny run in a folder; not to be written to."""
    from tests.flows.runs import run_stages, tiny_config

    root = built_once(tmp_path_factory, "tiny-run", lambda folder: run_stages(tiny_config(folder, workers=1)))
    return open_warehouse(root)


@pytest.fixture(scope="session")
def waiting_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose first round waits for somebody to train its policy: `network` and the warehouse `root`."""
    return built_once(tmp_path_factory, "waiting-run", _run_until_it_waits)


def _run_until_it_waits(folder: Path) -> None:
    from tests.flows.policies.network import NOBODY_TRAINS, network_config, network_folder
    from tests.flows.runs import first_waiting
    from trajmill.flows.stage import RoundContext

    network = network_folder(folder / "network", seed=3)
    assert first_waiting(RoundContext.of(network_config(folder / "root", network, NOBODY_TRAINS))) is not None


@pytest.fixture
def waiting_run(waiting_folder: Path, tmp_path: Path) -> WaitingRun:
    """A copy of that run, to go on with."""
    from tests.flows.policies.network import NOBODY_TRAINS, WaitingRun, network_config

    root = copy_of(waiting_folder / "root", tmp_path / "root")
    return WaitingRun(network_config(root, waiting_folder / "network", NOBODY_TRAINS), waiting_folder / "network")


@pytest.fixture(scope="session")
def judged_round(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A first round of which some training attempts succeed and some fail; to be copied."""
    from tests.flows.runs import judged_config, up_to
    from trajmill.flows.policies.policy import PROMOTE
    from trajmill.flows.stage import RoundContext

    def build(root: Path) -> None:
        up_to(PROMOTE, RoundContext.of(judged_config(root)))

    return built_once(tmp_path_factory, "judged-round", build)


@pytest.fixture
def root(judged_round: Path, tmp_path: Path) -> Path:
    """A warehouse after that round, to go on with."""
    return copy_of(judged_round, tmp_path / "warehouse")


@pytest.fixture
def judges() -> Iterator[FaultServer]:
    """A server of the models `tiny` and `other`, which say their opinions."""
    from tests.flows.runs import opinion
    from tests.stages.models.fault_server import running_server

    with running_server(models=("tiny", "other"), writes=opinion) as running:
        yield running
