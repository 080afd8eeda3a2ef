"""Machines that have only an S3 server in common: Beam's job service, and worker pools with a disk of their own.

Each is a session of processes with an empty home, working folder and folder for caches, so that killing it leaves
nothing behind. A dispatcher hands each new worker to the next pool that answers, as a load balancer would.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from tests.bucket_server import environment_for
from trajmill.pipelines.engine.settings import BeamSettings

_ANSWER_SECONDS = 10.0
"""Time after which a pool that does not answer is taken for dead."""
_REPOSITORY = Path(__file__).parents[3]


class Machine:
    """One machine: a program, and the processes that it starts."""

    def __init__(self, disk: Path, s3_endpoint: str, program: str, *arguments: str) -> None:
        """Start a program on an empty disk, and wait until it serves."""
        self.disk = disk
        for name in ("home", "tmp", "work", "caches"):
            (disk / name).mkdir(parents=True)
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(_REPOSITORY),
            "HOME": str(disk / "home"),
            "TMPDIR": str(disk / "tmp"),
            **environment_for(s3_endpoint, disk / "caches"),
        }
        self._log = (disk / "log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.pipelines.engine.{program}", *arguments],
            env=environment,
            cwd=disk / "work",
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    @property
    def session(self) -> int:
        """What all its processes call their session."""
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the machine."""
        os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """End all its processes at once; killing twice is fine."""
        if self._process.poll() is None:
            self.send(signal.SIGKILL)
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


class Dispatcher(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Hands each request for a worker to the next pool that answers."""

    def __init__(self, pools: list[Machine]) -> None:
        self._pools = pools

    def StartWorker(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 (Beam's name)
        """Start a worker at the next pool."""
        for _ in range(len(self._pools)):
            self._pools.append(self._pools.pop(0))
            try:
                with grpc.insecure_channel(f"localhost:{self._pools[-1].port}") as channel:
                    return beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel).StartWorker(
                        request, timeout=_ANSWER_SECONDS
                    )
            except grpc.RpcError:
                continue
        return beam_fn_api_pb2.StartWorkerResponse(error="no worker pool answers")


@contextmanager
def dispatched(pools: list[Machine]) -> Iterator[str]:
    """Serve a dispatcher of pools; gives its address."""
    server = grpc.server(ThreadPoolExecutor(4))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(Dispatcher(list(pools)), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield f"localhost:{port}"
    finally:
        server.stop(None)


class Cluster:
    """A job service and two worker pools."""

    def __init__(self, service: Machine, pools: list[Machine], address: str) -> None:
        self.service, self.pools = service, pools
        self.options = (
            f"--job_endpoint=localhost:{service.port}",
            "--environment_type=EXTERNAL",
            f"--environment_config={address}",
        )

    def settings(self, restarts: int = 5, silent_seconds: float = 300.0) -> BeamSettings:
        """What leads a pipeline here."""
        return BeamSettings("PortableRunner", self.options, restarts, silent_seconds)


@contextmanager
def cluster(s3_endpoint: str) -> Iterator[Cluster]:
    """Run a job service and two worker pools."""
    with TemporaryDirectory(prefix="machines-") as temporary, ExitStack() as running:
        # Sockets need a short path, so this is no folder of pytest's.
        folder = Path(temporary)

        def started(name: str, program: str, *arguments: str) -> Machine:
            machine = Machine(folder / name, s3_endpoint, program, *arguments)
            running.callback(machine.kill)
            return machine

        service = started("service", "job_service", str(folder / "service" / "work"))
        pools = [started(f"pool-{number}", "worker_pool") for number in range(2)]
        yield Cluster(service, pools, running.enter_context(dispatched(pools)))
