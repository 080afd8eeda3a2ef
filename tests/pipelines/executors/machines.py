"""Machines that have only an S3 server in common: Beam's job service, and worker pools with a disk of their own.

Each is a session of processes with an empty home, working folder and folder for caches, so that killing it leaves
nothing behind. A dispatcher hands each new worker to the next pool that answers, as a load balancer would.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from tests.bucket_server import bucket_server, environment_for
from trajmill.pipelines.fan_out import BeamSettings

_ANSWER_SECONDS = 2.0
"""Time after which a pool that does not answer is taken for dead."""
_LOOPBACK = "127.0.0.1"
_REPOSITORY = Path(__file__).parents[3]


class Machine:
    def __init__(self, disk: Path, s3_endpoint: str, program: str) -> None:
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
            [sys.executable, "-m", f"tests.pipelines.executors.{program}", _LOOPBACK],
            env=environment,
            cwd=disk / "work",
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.address = f"{_LOOPBACK}:{int(self._process.stdout.readline())}"
        """Where its program serves."""

    @property
    def session(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def cut_off(self) -> None:
        os.killpg(self._process.pid, signal.SIGSTOP)

    def come_back(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


class Dispatcher(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    def __init__(self, pools: list[Machine]) -> None:
        self._pools, self._turn = pools, count()

    def StartWorker(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 (Beam's name)
        for _ in range(len(self._pools)):
            pool = self._pools[next(self._turn) % len(self._pools)]
            try:
                with grpc.insecure_channel(pool.address) as channel:
                    return beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel).StartWorker(
                        request, timeout=_ANSWER_SECONDS
                    )
            except grpc.RpcError:
                continue
        return beam_fn_api_pb2.StartWorkerResponse(error="no worker pool answers")


@contextmanager
def dispatched(pools: list[Machine]) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(Dispatcher(pools), server)
    port = server.add_insecure_port(f"{_LOOPBACK}:0")
    server.start()
    try:
        yield f"{_LOOPBACK}:{port}"
    finally:
        server.stop(None)


class Cluster:
    def __init__(
        self, s3_endpoint: str, service: Machine, pools: list[Machine], dispatcher: str, new_pool: Callable[[], Machine]
    ) -> None:
        self.s3_endpoint, self.service, self.pools, self._new_pool = s3_endpoint, service, pools, new_pool
        self.options = (
            f"--job_endpoint={service.address}",
            "--environment_type=EXTERNAL",
            f"--environment_config={dispatcher}",
        )

    def replace_killed(self) -> None:
        """Start a pool for each that was killed: the next test may cut one of two off."""
        for place, pool in enumerate(self.pools):
            if not pool.is_running:
                self.pools[place] = self._new_pool()

    def settings(self, restarts: int = 5, silent_seconds: float = 300.0) -> BeamSettings:
        return BeamSettings(
            runner="PortableRunner", options=self.options, restarts=restarts, silent_seconds=silent_seconds
        )


@contextmanager
def cluster() -> Iterator[Cluster]:
    with TemporaryDirectory(prefix="machines-") as temporary, ExitStack() as running:
        # Sockets need a short path, so this is no folder of pytest's.
        s3_endpoint = running.enter_context(bucket_server())

        def started(number: int, program: str) -> Machine:
            machine = Machine(Path(temporary) / str(number), s3_endpoint, program)
            running.callback(machine.kill)
            return machine

        with ThreadPoolExecutor() as starting:
            service, *pools = starting.map(started, (1, 2, 3), ("job_service", "worker_pool", "worker_pool"))
        numbers = count(4)
        dispatcher = running.enter_context(dispatched(pools))
        yield Cluster(s3_endpoint, service, pools, dispatcher, lambda: started(next(numbers), "worker_pool"))
