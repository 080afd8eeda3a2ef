"""A Dask cluster: its client, its workers, and what they tell while they work; imports Dask where it is used."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

from trajmill.pipelines.fan_out import DASK, BeamSettings, StageWork
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.staging import ShardProgress
from trajmill.warehouse.store.base import FileStore

if TYPE_CHECKING:
    from distributed import Client


def check_scheduler(address: str) -> None:
    """Raise BadInputError if no scheduler answers, or its versions differ from those here."""
    with connected(address) as client:
        found = client.get_versions(packages=["trajmill"])
    compare("the scheduler", found["scheduler"]["packages"], found["client"]["packages"])


def check_workers(settings: BeamSettings, store: FileStore) -> None:
    """Raise BadInputError if a worker of a cluster has other versions, as its scheduler, or no access to the store."""
    if settings.runner != DASK:
        return
    client = connected(settings.cluster)
    found = client.get_versions(packages=["trajmill"])
    here = found["client"]["packages"]
    compare("the scheduler", found["scheduler"]["packages"], here)
    workers = client.scheduler_info(n_workers=-1)["workers"]
    # One that has joined since, or joins again, is named by its address.
    names = {address: f"worker {worker['name']}" for address, worker in workers.items()}
    for address, there in found["workers"].items():
        compare(names.get(address, f"worker {address}"), there["packages"], here)
    for address, answer in client.run(store.size, "any", on_error="return").items():
        # One that is cut off answers with an OSError; others do its shards.
        if isinstance(answer, TrajmillError):
            raise BadInputError(f"{names.get(address, f'worker {address}')}: {answer}; or stop this worker")


def compare(who: str, theirs: Mapping[str, str | None], ours: Mapping[str, str | None]) -> None:
    """Compare versions by package, None for one that is not installed. Raises BadInputError if they differ."""
    there, here = (
        f"Python {'.'.join(str(packages['python']).split('.')[:2])}, "
        f"Dask {packages['distributed']}, trajmill {packages['trajmill'] or '(none)'}"
        for packages in (theirs, ours)
    )
    if there != here:
        raise BadInputError(f"{who} has {there}, and this process {here}; install the same versions")


MISSING = "needs Dask: pip install 'trajmill[cluster]'"
DASHBOARD = "dashboard"
"""File in the folder of a run with the link to the cluster's pages, and what it lacks."""
_ANSWER_SECONDS = 10.0
_TELL_SECONDS = 1.0
_LOOK_SECONDS = 2.0
_RESTART_SECONDS = 4.0
"""How long a nanny takes to replace a worker that died."""
_REMIND_SECONDS = 300.0
SETTINGS = {
    # Workers that are daemons may not start the processes that draw.
    "distributed.worker.daemon": False,
    # A waiting worker takes 0.5 % of a core and the driver 1.1 %; with Dask's defaults (10, 20 ms) 3.4 and 2.9 %.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
}
"""Dask's settings in workers, and in the process that drives them."""
_LOG = logging.getLogger(__name__)


@contextmanager
def watched(work: StageWork[Any], settings: BeamSettings) -> Iterator[None]:
    """Count inside what workers tell, say when none is left, and send work to those with the resources it needs."""
    from dask import annotate

    client, folder = running_client(settings.cluster), work.at.staging(work.warehouse)
    topic = work.warehouse.name(folder)
    _link(work.warehouse, work.at.run_id, client.dashboard_link)
    client.subscribe_topic(topic, lambda event: ShardProgress(folder, event[1][0]).fill(event[1][1]))
    needed, ended = settings.resources if hasattr(work, "environment") else {}, threading.Event()
    looking = threading.Thread(
        target=_say_if_none_is_left, args=(client, work, settings.cluster, needed, ended), daemon=True
    )
    if settings.cluster:
        looking.start()
    try:
        with annotate(resources=dict(needed)) if needed else nullcontext():
            yield
    finally:
        ended.set()
        if settings.cluster:
            looking.join(_LOOK_SECONDS)
        client.unsubscribe_topic(topic)


def _say_if_none_is_left(
    client: Client, work: StageWork[Any], address: str, needed: Mapping[str, float], ended: threading.Event
) -> None:
    """Warn, and say in the file with the link, that no worker is left with what a stage needs; also when one joins."""
    resources = "".join(f" --resources {name}={amount:g}" for name, amount in needed.items())
    who = f"no worker with {', '.join(needed)}" if needed else "no worker"
    line = f"{who} is left at {address}: waiting; start one with `trajmill worker --scheduler {address}{resources}`"
    due, told = inf, False
    while not ended.wait(_LOOK_SECONDS):
        with suppress(Exception):  # A scheduler that is gone ends the job.
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            if any(all(each["resources"].get(name, 0) >= least for name, least in needed.items()) for each in workers):
                if told:
                    _LOG.warning("%d worker(s) at %s: going on", len(workers), address)
                    _put_link(work.warehouse, work.at.run_id, client.dashboard_link)
                due, told = inf, False
            elif time.monotonic() >= (due := min(due, time.monotonic() + _RESTART_SECONDS)):
                due, told = time.monotonic() + _REMIND_SECONDS, True
                _LOG.warning(line)
                _put_link(work.warehouse, work.at.run_id, f"{client.dashboard_link}; {line}")


@contextmanager
def telling(work: StageWork[Any], shard: str) -> Iterator[None]:
    """Tell inside how much of a shard is done, unless the driver sees the same folder."""
    if work.warehouse.store.is_local or "distributed" not in sys.modules:
        yield
        return
    from distributed import get_worker

    worker, folder, ended = get_worker(), work.at.staging(work.warehouse), threading.Event()

    def tell() -> None:
        while not ended.wait(_TELL_SECONDS):
            # Of this execution, whose name begins so.
            if done := max((file.stat().st_size for file in folder.glob(f"progress-{shard}*.done")), default=0):
                worker.log_event(work.warehouse.name(folder), [shard, done])

    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def worker_name() -> str:
    if "distributed" in sys.modules:
        from distributed import get_worker

        with suppress(ValueError):
            return f"worker {get_worker().name}"
    return "a worker"


@lru_cache(maxsize=1)
def _link(warehouse: Warehouse, run_id: str, link: str) -> None:
    _LOG.warning("the cluster's dashboard: %s", link)
    _put_link(warehouse, run_id, link)


def _put_link(warehouse: Warehouse, run_id: str, text: str) -> None:
    warehouse.store.put(warehouse.run_file(run_id, DASHBOARD), text.encode())


def running_client(address: str, workers: int = 1) -> Client:
    client = connected(address)
    if client.status != "running":
        connected.cache_clear()
        client = connected(address)
    if not address and workers > len(client.nthreads()):
        client.cluster.scale(workers)
        client.wait_for_workers(workers)
    return client


@cache
def connected(address: str) -> Client:
    """Return the client of a cluster, with our settings of Dask. Raises BadInputError if no scheduler answers."""
    from dask import config
    from distributed import Client, LocalCluster, Security
    from distributed.comm import connect

    async def ask() -> None:
        await (await connect(address, _ANSWER_SECONDS, **Security().get_connection_args("client"))).close()

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", "Mismatched versions")  # `check_workers` says so in one line.
    config.set(SETTINGS)
    if not address:
        return Client(LocalCluster(n_workers=0, threads_per_worker=1, memory_limit=0, dashboard_address="127.0.0.1:0"))
    try:
        # A client that fails to start is closed by garbage collection, which may block the start of another for ever.
        asyncio.run(asyncio.wait_for(ask(), 2 * _ANSWER_SECONDS))
        return Client(address, timeout=_ANSWER_SECONDS)
    except (OSError, ValueError, TypeError, MemoryError) as error:  # TypeError: no certificates; MemoryError: HTTP.
        raise no_scheduler(address, error) from error


def no_scheduler(address: str, error: Exception) -> TrajmillError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    start = "`dask scheduler`" + (", or see to the TLS settings" if address.startswith("tls:") else "")
    return BadInputError(f"no Dask scheduler answers at {address} ({reason}); start one with {start}")
