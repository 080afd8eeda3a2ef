import gc
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest
from dask import config
from distributed import Client, LocalCluster, Security, Worker

from tests.bucket_server import bucket_server
from tests.flows.runs import tiny_config
from tests.stages.environments.processes import eventually
from tests.warehouse.samples import stage_run, step_verdicts
from trajmill.flows.cli.app import run
from trajmill.flows.stage import RoundContext, has_begun
from trajmill.flows.tasks.rollout import attempt_all
from trajmill.pipelines.executors import beam
from trajmill.pipelines.executors.cluster import DASHBOARD, compare, connected
from trajmill.pipelines.fan_out import BeamSettings, StageWork, WrittenFiles, fan_out
from trajmill.pipelines.models import ActingAgent
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import Origin
from trajmill.stages.agents.spec import ReferenceSpec
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.staging import progress_of
from trajmill.warehouse.store.base import BucketUrl

pytestmark = pytest.mark.slow

AT = stage_run("judge")
ORIGIN = Origin(round=AT.round, run_id=AT.run_id, code_version="test")
BAD_INPUT, BUG = -1, -2


@dataclass(frozen=True)
class WriteVerdicts(StageWork[Sequence[int]]):
    def identity(self, numbers: Sequence[int]) -> object:
        return list(numbers)

    def __call__(self, shard: str, numbers: Sequence[int]) -> WrittenFiles:
        if BAD_INPUT in numbers:
            raise BadInputError("names.txt:3: not a name; correct it")
        if BUG in numbers:
            raise ValueError("a bug")
        rows = [row for number in numbers for row in step_verdicts(1, AT, number)]
        return self.written(shard, {"step_verdicts": rows})


@dataclass(frozen=True)
class InEnvironment(WriteVerdicts):
    environment: str = "a browser"


@pytest.fixture(scope="module")
def settings() -> Iterator[BeamSettings]:
    """A cluster of two workers, of which one has a browser; all in this process."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    tcp = {"processes": False, "protocol": "tcp://"}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, **tcp) as cluster:
        made = BeamSettings(runner="dask", cluster=cluster.scheduler_address)
        yield made
        connected(made.cluster).close()


def _refusing_nobody(application: WSGIApplication) -> WSGIApplication:
    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if "Credential=nobody/" not in environ.get("HTTP_AUTHORIZATION", ""):
            return application(environ, start_response)
        start_response("403 Forbidden", [])
        return []

    return serve


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    with bucket_server(before=_refusing_nobody) as endpoint:
        yield endpoint


@pytest.mark.parametrize(
    ("number", "kind", "line"),
    [
        (BAD_INPUT, BadInputError, r"\Aworker \S+: names\.txt:3: not a name; correct it\Z"),
        (BUG, TrajmillError, r"\Astage judge: worker \S+ failed: ValueError: a bug\Z"),
    ],
)
def test_an_error_of_a_worker_arrives_as_one_line(
    settings: BeamSettings, bucket_url: str, number: int, kind: type[Exception], line: str
) -> None:
    with pytest.raises(kind, match=line):
        fan_out(WriteVerdicts(create_warehouse(bucket_url), AT, ORIGIN), [[0], [number]], settings)


def test_another_version_is_named(settings: BeamSettings, bucket_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = iter(["0.2.0", "0.1.0"])
    monkeypatch.setattr(beam, "version", lambda _: next(versions))
    with pytest.raises(
        BadInputError, match=r"\Aworker \S+: it has trajmill 0.1.0 and this run 0.2.0; install the same\Z"
    ):
        fan_out(WriteVerdicts(create_warehouse(bucket_url), AT, ORIGIN), [[0]], settings)


def test_no_stage_begins_while_a_worker_has_no_access(settings: BeamSettings, bucket_url: str) -> None:
    context = RoundContext.of(tiny_config(BucketUrl(bucket_url), settings))
    work = WriteVerdicts(context.warehouse, context.at("judge"), ORIGIN)
    with started(*_JOIN, settings.cluster, "--name=unfit", AWS_ACCESS_KEY_ID="nobody"):
        with Client(settings.cluster, set_as_default=False) as client:
            client.wait_for_workers(3, timeout=100)
        line = r"\Aworker unfit: s3://\S+: .* denies access; .*stop this worker\Z"
        with pytest.raises(BadInputError, match=line):
            context.fan_out(work, [[0]])
        with pytest.raises(BadInputError, match=line):
            attempt_all(context, context.at("rollout"), [], ActingAgent(ReferenceSpec()))
        assert not has_begun(context, "judge")


@pytest.mark.parametrize(
    ("theirs", "named"),
    [
        ({"trajmill": None}, r"Python 3.11, Dask 1, trajmill \(none\)"),
        ({"trajmill": "0.1"}, r"Python 3.11, Dask 1, trajmill 0.1"),
        ({"python": "3.12.1.final.0"}, r"Python 3.12, Dask 1, trajmill 0.2"),
        ({"distributed": "2"}, r"Python 3.11, Dask 2, trajmill 0.2"),
    ],
)
def test_a_machine_with_other_versions_is_refused(theirs: dict[str, str | None], named: str) -> None:
    ours: dict[str, str | None] = {"python": "3.11.7.final.0", "distributed": "1", "trajmill": "0.2"}
    compare("worker a", {**ours, "python": "3.11.9.final.0"}, ours)
    with pytest.raises(
        BadInputError, match=rf"\Aworker a has {named}, and this process Python 3.11, .* the same versions\Z"
    ):
        compare("worker a", {**ours, **theirs}, ours)


def number_of_clients() -> int:
    return sum(type(each) is Client for each in gc.get_objects())


def test_a_cluster_may_speak_tls_alone(recwarn: pytest.WarningsRecorder) -> None:
    keys = Security.temporary()
    files = {"ca-file": keys.tls_ca_file, "client.cert": keys.tls_client_cert, "client.key": keys.tls_client_key}
    tls = {f"distributed.comm.tls.{name}": content for name, content in files.items()}
    with LocalCluster(1, processes=False, protocol="tls", security=keys, dashboard_address=None) as cluster:
        clients = number_of_clients()
        with pytest.raises(BadInputError, match=r"no Dask scheduler answers at tls:.*, or see to the TLS settings"):
            connected.__wrapped__(cluster.scheduler_address)
        assert number_of_clients() == clients, "one that nobody closes would be left to garbage collection"
        with config.set(tls), connected.__wrapped__(cluster.scheduler_address) as client:
            assert client.submit(len, "abc").result() == 3


async def _give_browsers(dask_worker: Worker) -> None:
    await dask_worker.set_resources(browser=8)


def test_attempts_go_where_the_resources_are(settings: BeamSettings, bucket_url: str) -> None:
    warehouse = create_warehouse(bucket_url)
    seeing = settings.model_copy(update={"resources": {"browser": 8.0}})
    with Client(settings.cluster, set_as_default=False) as client:
        [first, second] = client.nthreads()
        client.run(_give_browsers, workers=[second])
        client.get_task_stream()
        fan_out(InEnvironment(warehouse, AT, ORIGIN), [[number] for number in range(4)], seeing)
        assert {task["worker"] for task in client.get_task_stream()} == {second}
    assert first != second and settings.workers(1) == 2


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--scheduler", "nowhere"], r"no Dask scheduler answers at nowhere \(.*\); start one with `dask scheduler`"),
        (["--scheduler", "tcp://127.0.0.1:1", "--resources", "browser"], r"--resources 'browser' is not NAME=NUMBER.*"),
        (["--scheduler", "tcp://127.0.0.1:1", "--memory", "8"], r"--memory '8' is not a size, e.g. 8GiB"),
    ],
)
@pytest.mark.filterwarnings("ignore")  # of a client that was never open
def test_a_wrong_command_is_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["worker", *arguments]) == 1
    assert re.fullmatch(line + "\n", capsys.readouterr().err)


@dataclass(frozen=True)
class Wait(StageWork[int]):
    """Begin each shard, and end it only once there is a file `go`."""

    folder: str
    """A text: a path would be brought to the worker with what lies there."""

    def identity(self, number: int) -> object:
        return number

    def __call__(self, shard: str, number: int) -> WrittenFiles:
        self.progress(shard).add()
        Path(self.folder, "begun").touch()
        eventually(Path(self.folder, "go").exists)
        return self.written(shard, {"step_verdicts": step_verdicts(1, AT, number)})


@dataclass(frozen=True)
class WaitFarAway(Wait):
    environment: str = "one that only a far machine has"


_JOIN = "from trajmill.flows.cli import main; main()", "worker", "--scheduler"


@contextmanager
def started(program: str, *arguments: str, **variables: str) -> Iterator[Callable[[], None]]:
    """Yield what kills the Python program and all its processes."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def kill() -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    try:
        yield kill
    finally:
        kill()


def test_a_shard_of_a_machine_with_another_disk_counts_while_it_is_done(
    settings: BeamSettings, bucket_url: str, tmp_path: Path
) -> None:
    warehouse, far = create_warehouse(bucket_url), settings.model_copy(update={"resources": {"far": 1.0}})
    join = (*_JOIN, settings.cluster, "--resources", "far=1")
    with started(*join, XDG_CACHE_HOME=str(tmp_path / "far")), ThreadPoolExecutor(1) as thread:
        working = thread.submit(fan_out, WaitFarAway(warehouse, AT, ORIGIN, str(tmp_path)), [0], far)
        try:
            eventually(lambda: progress_of(AT.staging(warehouse)) == (1, 1))
        finally:
            (tmp_path / "go").touch()
        assert working.result(60).rows("step_verdicts") == 1


def test_without_an_address_a_cluster_of_this_machine_does_the_work(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path)
    made = fan_out(WriteVerdicts(warehouse, AT, ORIGIN), [[0], [1], [2]], BeamSettings(runner="dask"), workers=2)
    client = connected("")
    with client.cluster, client:
        assert len(client.nthreads()) == 2 and made.rows("step_verdicts") == 3


def test_a_stage_whose_workers_all_left_says_so_and_goes_on_with_the_next_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse, file = create_warehouse(tmp_path / "warehouse"), tmp_path / "scheduler.json"
    link = warehouse.run(AT.run_id) / DASHBOARD
    options = ["--host=127.0.0.1", "--port=0", "--dashboard-address=:0", f"--scheduler-file={file}"]
    with ExitStack() as running:
        running.enter_context(started("from distributed.cli.dask_scheduler import main; main()", *options))
        eventually(file.exists)
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            address = client.scheduler.address
        thread = running.enter_context(ThreadPoolExecutor(1))
        running.enter_context(closing(connected(address)))
        work, settings = Wait(warehouse, AT, ORIGIN, str(tmp_path)), BeamSettings(runner="dask", cluster=address)
        working = thread.submit(fan_out, work, [0, 1], settings)
        with started(*_JOIN, address) as kill:
            eventually((tmp_path / "begun").exists)
            kill()
            line = f"no worker is left at {address}: waiting; start one with `trajmill worker --scheduler {address}`"
            eventually(lambda: line in caplog.messages)
            eventually(lambda: link.read_text().endswith(f"; {line}"))
        with started(*_JOIN, address):
            eventually(lambda: f"1 worker(s) at {address}: going on" in caplog.messages)
            eventually(lambda: line not in link.read_text())
            (tmp_path / "go").touch()
            assert working.result(300).rows("step_verdicts") == 2
