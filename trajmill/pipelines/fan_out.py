"""Does the work of a stage in shards. A shard is written once; its name hashes its work.

An executor may do a shard again after a failure, and a killed run may continue with another number of workers. A
finished shard of the same name is kept; all others are done. Shards of another split have other names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from trajmill.pipelines.executors.base import Executor, Shard
from trajmill.pipelines.executors.beam import BeamExecutor, BeamSettings
from trajmill.pipelines.executors.processes import ProcessExecutor
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import content_id
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.shards import DataFile
from trajmill.warehouse.staging import ShardProgress, mark_done, plan_items, read_marker

P = TypeVar("P", contravariant=True)
T = TypeVar("T")

MOST_IN_SHARD = 1000
"""Most trajectories in a shard: a worker holds its rows in memory, and a killed stage loses unfinished shards."""


@dataclass(frozen=True)
class WrittenFiles:
    """The files that a shard, or all shards of a stage, have written."""

    files: Mapping[str, Sequence[DataFile]]
    """The files, by table."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """By reason, how much gave no row."""

    def rows(self, table: str) -> int:
        """Rows written for a table."""
        return sum(file.rows for file in self.files.get(table, ()))


class ShardWork(Protocol[P]):
    """The work on the payload of one shard; picklable."""

    def identity(self, payload: P, /) -> object:
        """Everything that decides the rows of a shard except its run, round and stage, as JSON values."""
        ...

    def __call__(self, shard: str, payload: P, /) -> WrittenFiles:
        """Do the work of a shard and write its files under the shard's name."""
        ...


@dataclass(frozen=True)
class _Shards(Generic[P]):
    """Does shards of a stage and marks them; implements `DoShard`."""

    warehouse: Warehouse
    at: StageRun
    work: ShardWork[P]

    def __call__(self, shard: Shard, attempt: str = "") -> Mapping[str, int]:
        made = None
        if self.read(shard.name) is None:
            made = self.work(f"{shard.name}{attempt}", shard.payload)
            files = {table: [list(file) for file in written] for table, written in made.files.items()}
            result = {"files": files, "dropped": dict(made.dropped)}
            mark_done(self.warehouse, self._folder(shard.name), shard.name, result)
        ShardProgress(self.at.staging(self.warehouse), shard.name).fill(items_of(shard.payload))
        return {table: made.rows(table) for table in made.files} if made else {}

    def read(self, shard: str) -> WrittenFiles | None:
        """What a finished shard has written; None if it is not finished."""
        result = read_marker(self.warehouse, self._folder(shard), shard)
        if result is None:
            return None
        files = {table: [DataFile(*values) for values in written] for table, written in result["files"].items()}
        return WrittenFiles(files, result["dropped"])

    def _folder(self, shard: str) -> Path:
        return self.at.staging(self.warehouse) / f"shard-{shard}"


def fan_out(
    warehouse: Warehouse,
    at: StageRun,
    payloads: Sequence[P],
    work: ShardWork[P],
    settings: BeamSettings,
    workers: int = 1,
) -> WrittenFiles:
    """Do `work` on every payload, each a shard of the stage, and return the files in the order of the payloads.

    A shard that an earlier call has finished with the same payload and work is kept.

    Args:
        warehouse: where the shards are written.
        at: the stage.
        payloads: picklable; `divide` makes them of items.
        work: done on each payload.
        settings: the Beam runner.
        workers: worker processes. With several, processes of our own replace Beam's in-process runner, which has one;
            other runners bring their workers.

    Raises:
        TrajmillError: `work` raised it, workers on other machines were lost too often, or a worker has written to a
            folder that this process does not see.
    """
    # The number in the name keeps the files of a stage in the order of its payloads.
    names = [f"{number:05d}-{content_id('shard', work.identity(payload))}" for number, payload in enumerate(payloads)]
    shards = [Shard(name, payload) for name, payload in zip(names, payloads, strict=True)]
    plan_items(at.staging(warehouse), sum(map(items_of, payloads)))
    do = _Shards(warehouse, at, work)
    if shards:
        in_processes = workers > 1 and len(shards) > 1 and settings.on_this_machine
        executor: Executor = ProcessExecutor(workers) if in_processes else BeamExecutor(settings)
        executor.run(do, shards)
    return _joined(_finished(do, name) for name in names)


def items_of(payload: object) -> int:
    """The items of a payload, as progress counts them: those of a list, else one."""
    return len(payload) if isinstance(payload, Sequence) and not isinstance(payload, str | tuple) else 1


def divide(
    items: Sequence[T], workers: int, most: int = MOST_IN_SHARD, near: Callable[[T], Any] | None = None
) -> list[list[T]]:
    """Divide items into the payloads of shards: at least one per worker, none empty, nearly equal in length.

    Args:
        items: neighbours come into one shard, so sort them as their rows are stored.
        workers: worker processes on this machine.
        most: the most items of a shard.
        near: sort key for the division. Items keep their own order within a shard.
    """
    places = sorted(range(len(items)), key=None if near is None else lambda place: near(items[place]))
    parts = split_evenly(places, max(workers, ceil(len(items) / most)))
    return [[items[place] for place in sorted(part)] for part in parts]


def split_evenly(items: Sequence[T], shards: int) -> list[Sequence[T]]:
    """Divide items, in their order, between at most `shards` lists of nearly equal length, none of them empty."""
    count = min(shards, len(items))
    ends = [-(-len(items) * number // count) for number in range(count + 1)] if count else []
    return [items[start:end] for start, end in pairwise(ends)]


def _finished(shards: _Shards[Any], name: str) -> WrittenFiles:
    written = shards.read(name)
    if written is None:
        raise TrajmillError(f"{shards.warehouse.address}: shard {name} is not there; all workers must see this folder")
    return written


def _joined(shards: Iterable[WrittenFiles]) -> WrittenFiles:
    files: dict[str, list[DataFile]] = defaultdict(list)
    dropped: Counter[str] = Counter()
    for shard in shards:
        dropped.update(shard.dropped)
        for table, written in shard.files.items():
            files[table].extend(written)
    return WrittenFiles(dict(files), dict(dropped))
