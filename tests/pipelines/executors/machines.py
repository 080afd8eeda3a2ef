"""Machines that have only an S3 server and a Dask scheduler in common, each with an empty disk of its own.

Each is a session of processes in a network namespace of its own, on a bridge of this machine, which takes root. So
killing it leaves nothing behind, and its cable can be pulled.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bucket_server import bucket_server, environment_for
from trajmill.pipelines.fan_out import BeamSettings

_REPOSITORY = Path(__file__).parents[3]
_BIN = Path(sys.executable).parent
# A machine that is cut off is noticed after the shortest time that Dask takes, instead of half a minute.
_QUICKLY = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s"}


def may_make_networks() -> bool:
    name = f"probe{os.getpid()}"
    made = subprocess.run(f"ip netns add {name} && ip netns delete {name}", shell=True, capture_output=True)
    return made.returncode == 0


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
