"""Does the work of a stage in shards, in processes of this machine or as a Beam pipeline on others.

A shard's name hashes its work, and a finished shard is kept: a stage that was killed, or is done with another number of
workers, does only what is missing.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import Field, PositiveFloat

from trajmill.pipelines.executors.processes import side_by_side
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import Origin, Row, content_id
from trajmill.schemas.spec import Spec
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screens import NewScreens
from trajmill.warehouse.shards import DataFile, write_tables
from trajmill.warehouse.staging import ShardProgress, mark_done, plan_items, read_marker

P = TypeVar("P")
T = TypeVar("T")

MOST_IN_SHARD = 1000
"""Most trajectories in a shard: a worker holds its rows in memory, and a killed stage loses unfinished shards."""
DASK = "dask"
_LOCAL_RUNNERS = frozenset({"FnApiRunner", "DirectRunner", "BundleBasedDirectRunner"})


class BeamSettings(Spec):
    """Where the Apache Beam pipelines run."""

    runner: str = "FnApiRunner"
    """`FnApiRunner` runs on this machine, `dask` on a Dask cluster; other runners of Beam (`FlinkRunner`,
    `SparkRunner`, `DataflowRunner`, `PortableRunner`) on theirs (see engines.md)."""
    cluster: str = Field("", pattern=r"^(\S+:\d+)?$")
    """Address of the Dask scheduler, e.g. `tcp://scheduler:8786`. Empty: a cluster of `rollout.workers` processes on
    this machine."""
    resources: dict[str, PositiveFloat] = {}
    """What a Dask worker must have to make attempts, e.g. `{ browser = 8 }`; see `trajmill worker --resources`."""
    options: tuple[str, ...] = ()
    """Options of the runner, as on a Beam command line."""

    @property
    def on_this_machine(self) -> bool:
        """Whether the runner is one of Beam's in-process runners, which processes of our own replace."""
        return self.runner.rpartition(".")[2] in _LOCAL_RUNNERS

    def workers(self, least: int) -> int:
        """Return how many workers share a stage, at least `least`. Raises TrajmillError if no cluster answers."""
        if self.runner != DASK:
            return least
        from trajmill.pipelines.executors.cluster import running_client

        return max(least, len(running_client(self.cluster, least).nthreads()))


@dataclass(frozen=True)
class WrittenFiles:
    files: Mapping[str, Sequence[DataFile]]
    dropped: Mapping[str, int] = field(default_factory=dict)

    def rows(self, table: str) -> int:
        return sum(file.rows for file in self.files.get(table, ()))


class Shard(NamedTuple):
    """A part of a stage's work; picklable."""

    name: str
    payload: Any


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Do what `asyncio.run` does, whose task keeps the result; a worker process formats it, twice, when that ends.

    There `asyncio` restores the handler of Ctrl-C, and `signal.getsignal` words an error that nobody sees. With 600
    attempts this took 8 % of the CPU time of a rollout.
    """
    results: list[T] = []

    async def keep_result() -> None:
        results.append(await work)

    asyncio.run(keep_result())
    return results[0]


@dataclass(frozen=True)
class StageWork(Generic[P]):
    """The work of a stage on the payload of one shard; picklable. Doing a shard twice does no harm."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin

    def identity(self, payload: P, /) -> object:
        """Everything that decides the rows of a shard except its run, round and stage, as JSON values."""
        raise NotImplementedError

    def __call__(self, shard: str, payload: P, /) -> WrittenFiles:
        raise NotImplementedError

    def items(self, payload: P, /) -> int:
        """Count a payload's items for the progress: those of a list, else one."""
        return len(payload) if isinstance(payload, Sequence) and not isinstance(payload, str | tuple) else 1

    def do(self, shard: Shard, attempt: str = "") -> WrittenFiles:
        """Do a shard unless it is done. `attempt` keeps the files of executions apart."""
        made = self.finished_shard(shard.name)
        if made is None:
            made = self(f"{shard.name}{attempt}", shard.payload)
            result = {"files": dict(made.files), "dropped": dict(made.dropped)}
            mark_done(self.warehouse, self._folder / f"shard-{shard.name}", shard.name, result)
        if items := self.items(shard.payload):
            self.progress(shard.name).fill(items)
        return made

    def named(self, shard: Shard) -> tuple[str, WrittenFiles]:
        """Do a shard, and return its files with its name, because processes end in any order."""
        return shard.name, self.do(shard)

    def finished_shard(self, shard: str) -> WrittenFiles | None:
        result = read_marker(self.warehouse, self._folder / f"shard-{shard}", shard)
        if result is None:
            return None
        files = {table: [DataFile(*values) for values in written] for table, written in result["files"].items()}
        return WrittenFiles(files, result["dropped"])

    def written(
        self, shard: str, rows: Mapping[str, Sequence[Row]], dropped: Mapping[str, int] | None = None
    ) -> WrittenFiles:
        return WrittenFiles(write_tables(self.warehouse, self.at, rows, shard), dropped or {})

    def progress(self, shard: str) -> ShardProgress:
        return ShardProgress(self._folder, shard)

    @property
    def _folder(self) -> Path:
        return self.at.staging(self.warehouse)


def fan_out(
    work: StageWork[P], payloads: Sequence[P], settings: BeamSettings, workers: int = 1, screens_by: str = ""
) -> WrittenFiles:
    """Do `work` on every payload, each a shard of its stage, and return the files in the order of the payloads.

    Payloads are picklable. `workers` is the number of processes on this machine; a runner on other machines has its
    own. `screens_by` made the screens in the stage's journals, which are then written, each once. Raises TrajmillError
    if `work` raised it, workers were lost too often, or one has written elsewhere.
    """
    # The number in the name keeps the files of a stage in the order of its payloads.
    names = [f"{number:05d}-{content_id('shard', work.identity(payload))}" for number, payload in enumerate(payloads)]
    shards = list(map(Shard, names, payloads))
    if items := sum(map(work.items, payloads)):
        plan_items(work.at.staging(work.warehouse), items)
    done = dict[str, WrittenFiles]()
    if not settings.on_this_machine and shards:
        # Beam takes seconds to import.
        from trajmill.pipelines.executors.beam import run_on_machines

        run_on_machines(work, shards, settings, workers)
    elif workers > 1 and len(shards) > 1:
        done = dict(side_by_side(work.named, shards, workers))
    else:
        done = {shard.name: work.do(shard) for shard in shards}
    files: dict[str, list[DataFile]] = defaultdict(list)
    dropped: Counter[str] = Counter()
    for name in names:
        made = done.get(name) or work.finished_shard(name)
        if made is None:
            raise TrajmillError(f"{work.warehouse.address}: shard {name} is not there; all workers need this folder")
        dropped.update(made.dropped)
        for table, written in made.files.items():
            files[table].extend(written)
    if screens_by:
        files["screens"] = NewScreens(work.warehouse, work.at, work.origin, screens_by).write()
    return WrittenFiles(dict(files), dict(dropped))


def divide(
    items: Sequence[T], workers: int, most: int = MOST_IN_SHARD, near: Callable[[T], Any] | None = None
) -> list[list[T]]:
    """Divide items into payloads: at least one per worker, none empty, nearly equal in length, of at most `most`.

    Neighbours come into one shard, so sort items as their rows are stored, or give a sort key as `near`; items keep
    their own order within a shard.
    """
    places = sorted(range(len(items)), key=None if near is None else lambda place: near(items[place]))
    parts = min(len(items), max(workers, ceil(len(items) / most)))
    ends = [-(-len(items) * number // parts) for number in range(parts + 1)] if parts else []
    return [[items[place] for place in sorted(places[start:end])] for start, end in pairwise(ends)]
