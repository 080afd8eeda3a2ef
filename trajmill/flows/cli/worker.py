"""The command `trajmill worker`: a Dask worker with our settings."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from socket import gethostname

import typer
from typer import Option

from trajmill.schemas.errors import BadInputError

app = typer.Typer()

_LOG = logging.getLogger(__name__)


@app.command(epilog="Example: trajmill worker --scheduler tcp://scheduler:8786 --resources browser=8")
def worker(
    scheduler: str = Option(..., metavar="ADDRESS", help="Dask scheduler, as `dask scheduler` prints it: tcp://..."),
    workers: int = Option(1, min=1, max=256, help="Worker processes; each runs one shard at a time."),
    resources: list[str] = Option([], metavar="NAME=NUMBER", help="What each offers to beam.resources; repeatable."),
    memory: str | None = Option(None, metavar="SIZE", help="Memory limit of each, e.g. 8GiB. Default: equal shares."),
    name: str | None = Option(None, help="Name in logs and on the dashboard. Default: host and process."),
) -> None:
    """Start workers of a Dask cluster. They may join and leave at any time; runs name the cluster in beam.cluster.

    They need the environment variables of the bucket and of the model servers.
    """
    found = {}
    for each in resources:
        if not (match := re.fullmatch(r"([^=]+)=(\d+(?:\.\d+)?)", each)):
            raise BadInputError(f"--resources {each!r:.80} is not NAME=NUMBER, e.g. browser=8")
        found[match[1]] = float(match[2])
    if find_spec("distributed") is None:
        raise BadInputError("a worker needs Dask: pip install 'trajmill[cluster]'")
    if memory is not None and not re.fullmatch(r"\d+(?:\.\d+)? ?[MGT]i?B?", memory):
        raise BadInputError(f"--memory {memory!r:.80} is not a size, e.g. 8GiB")
    from trajmill.pipelines.executors.cluster import check_scheduler

    check_scheduler(scheduler)
    asyncio.run(_work(scheduler, name or f"{gethostname()}-{os.getpid()}", workers, found, memory))


async def _work(scheduler: str, name: str, workers: int, resources: Mapping[str, float], memory: str | None) -> None:
    """Work until a signal comes; a scheduler that goes away is waited for. Raises BadInputError if none answers."""
    from distributed import Nanny
    from distributed.system import MEMORY_LIMIT

    from trajmill.pipelines.executors.cluster import no_scheduler

    for joined in range(sys.maxsize):
        nannies = [
            Nanny(
                scheduler,
                nthreads=1,
                # The scheduler may not have noticed yet that the one before it is gone.
                name="-".join([name, *([str(number)] if workers > 1 else []), *([f"again{joined}"] if joined else [])]),
                resources=dict(resources),
                memory_limit=memory or MEMORY_LIMIT // workers,
                silence_logs=logging.CRITICAL,
                death_timeout=600.0,
                preload=["trajmill.pipelines.rollout"],
            )
            for number in range(workers)
        ]
        try:
            await asyncio.gather(*nannies)
            _LOG.warning("%d worker(s) joined %s as %s", workers, scheduler, nannies[0].name)
            await asyncio.gather(*(nanny.finished() for nanny in nannies))
        except (TimeoutError, OSError) as error:
            raise no_scheduler(scheduler, error) from error
        finally:
            await asyncio.gather(*(nanny.close() for nanny in nannies), return_exceptions=True)
        _LOG.warning("%s is gone; waiting for it", scheduler)
