"""A whole round on a Dask cluster of machines that have only a bucket in common, while some leave and one joins.

Each machine has an empty disk of its own, and is a session of processes in a network namespace of its own, on a bridge
of this machine, which takes root. So killing it leaves nothing behind, and its cable can be pulled.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from distributed import Client

from tests.bucket_server import bucket_server, environment_for
from tests.flows.runs import assert_same, run_stages, tiny_config
from tests.stages.environments.processes import eventually
from trajmill.pipelines.executors.cluster import connected
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.store.base import BucketUrl

_REPOSITORY = Path(__file__).parents[2]
_BIN = Path(sys.executable).parent
# A machine that is cut off is noticed after the shortest time that Dask takes, instead of half a minute.
_QUICKLY = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s"}


def may_make_networks() -> bool:
    name = f"probe{os.getpid()}"
    made = subprocess.run(f"ip netns add {name} && ip netns delete {name}", shell=True, capture_output=True)
    return made.returncode == 0


pytestmark = [pytest.mark.slow, pytest.mark.skipif(not may_make_networks(), reason="networks take root")]


def _ip(line: str) -> None:
    subprocess.run(["ip", *line.split()], check=True, capture_output=True)


@dataclass
class Machine:
    name: str
    process: subprocess.Popen[bytes]
    cable: str

    def cut_off(self) -> None:
        _ip(f"link set {self.cable} down")

    def come_back(self) -> None:
        _ip(f"link set {self.cable} up")

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class Cluster:
    folder: Path
    running: ExitStack
    s3_endpoint: str
    network: str
    """The first three numbers of its addresses."""
    bridge: str
    machines: list[Machine] = field(default_factory=list)

    @property
    def scheduler(self) -> str:
        return f"tcp://{self.network}.1:8786"

    @property
    def settings(self) -> BeamSettings:
        return BeamSettings(runner="dask", cluster=self.scheduler)

    def start(self, command: str, within: str, disk: str) -> subprocess.Popen[bytes]:
        home = self.folder / disk
        home.mkdir()
        environment = {
            "PATH": f"{_BIN}:{os.environ['PATH']}",
            "PYTHONPATH": str(_REPOSITORY),
            "HOME": str(home),
            "TMPDIR": str(home),
            **environment_for(self.s3_endpoint, home / "caches"),
            **_QUICKLY,
        }
        log = self.running.enter_context((self.folder / f"{disk}.log").open("wb"))
        process = subprocess.Popen(
            f"{within} {_BIN}/{command}".split(),
            env=environment,
            cwd=home,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.running.callback(Machine(disk, process, "").kill)
        return process

    def join(self) -> Machine:
        """Start a worker on a machine of its own."""
        number = len(self.machines) + 2
        name, cable = f"{self.bridge}n{number}", f"{self.bridge}v{number}"
        self.running.callback(partial(subprocess.run, ["ip", "netns", "delete", name]))
        for line in (
            f"netns add {name}",
            f"link add {cable} type veth peer name eth0 netns {name}",
            f"link set {cable} master {self.bridge} up",
            f"-n {name} addr add {self.network}.{number}/24 dev eth0",
            f"-n {name} link set eth0 up",
            f"-n {name} link set lo up",
            f"-n {name} route add default via {self.network}.1",
        ):
            _ip(line)
        command = f"trajmill worker --scheduler {self.scheduler} --name m{number}"
        machine = Machine(f"m{number}", self.start(command, f"ip netns exec {name}", f"m{number}"), cable)
        self.machines.append(machine)
        return machine


@contextmanager
def cluster(workers: int) -> Iterator[Cluster]:
    """Yield a scheduler and some workers, which may not have joined yet."""
    number = os.getpid()
    bridge, network = f"t{number}", f"10.{100 + number // 250 % 100}.{number % 250}"
    with TemporaryDirectory(prefix="machines-") as temporary, ExitStack() as running:
        _ip(f"link add {bridge} type bridge")
        running.callback(_ip, f"link delete {bridge}")
        _ip(f"addr add {network}.1/24 dev {bridge}")
        _ip(f"link set {bridge} up")
        endpoint = running.enter_context(bucket_server(f"{network}.1"))
        made = Cluster(Path(temporary), running, endpoint, network, bridge)
        made.start(f"dask scheduler --host {network}.1 --port 8786 --dashboard-address {network}.1:0", "", "scheduler")
        for _ in range(workers):
            made.join()
        yield made


@pytest.fixture(scope="module")
def machines() -> Iterator[Cluster]:
    with cluster(workers=3) as running:
        yield running
        connected(running.scheduler).close()


@pytest.fixture(scope="module")
def s3_endpoint(machines: Cluster) -> str:
    return machines.s3_endpoint


def test_a_round_on_machines_of_which_one_dies_one_is_cut_off_and_one_joins_has_the_tables_of_a_folder(
    tiny_run: Warehouse, machines: Cluster, bucket_url: str
) -> None:
    warehouse = create_warehouse(bucket_url)
    dies, leaves, _ = machines.machines
    everyone = {machine.name for machine in machines.machines}
    with Client(machines.scheduler, timeout=180, set_as_default=False) as client:
        client.get_task_stream()
        names: dict[str, str] = {}

        def present() -> dict[str, str]:
            found = client.scheduler_info(n_workers=-1)["workers"]
            now = {address: worker["name"] for address, worker in found.items()}
            names.update(now)
            return now

        def working() -> set[str]:
            now = present()
            return {now[address] for address, keys in client.processing().items() if keys and address in now}

        def disturb() -> None:
            eventually(lambda: any("-rollout/queue-" in file.name for file in warehouse.store.files("staging")))
            eventually(lambda: everyone <= working())  # All are busy at the same time.
            dies.kill()
            leaves.cut_off()
            machines.join()
            eventually(lambda: leaves.name not in present().values())
            leaves.come_back()

        client.wait_for_workers(3, timeout=180)
        with ThreadPoolExecutor(1) as thread:
            disturbed = thread.submit(disturb)
            run_stages(tiny_config(BucketUrl(bucket_url), machines.settings))
            disturbed.result()
        # It joins anew, or its nanny restarts it under the same name, whichever notices first.
        eventually(lambda: any(name.startswith(leaves.name) for name in present().values()))
        done: list[dict[str, Any]] = client.get_task_stream()
    assert_same(open_warehouse(bucket_url), tiny_run)
    spans = [(names[task["worker"]], each["start"], each["stop"]) for task in done for each in task["startstops"]]
    assert any(one != other and max(a, c) < min(b, d) for (one, a, b), (other, c, d) in combinations(spans, 2))
    assert {"m4", "m5"} <= {name for name, *_ in spans}, "who stayed and who joined late have worked"
