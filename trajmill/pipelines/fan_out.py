"""Does the work of a stage in shards, one Beam element for each. A shard is written once; its name hashes its work.

Beam may run a shard again after a failure, and a killed run may continue with another number of workers. A finished
shard of the same name is kept; all others are done. Shards of an earlier split have other names, so they are never
taken for shards of this one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from trajmill.pipelines.engine.beam import Metrics, beam
from trajmill.pipelines.engine.packing import PackedWork, packed
from trajmill.pipelines.engine.settings import BeamSettings
from trajmill.pipelines.engine.signs import Signs
from trajmill.pipelines.engine.watch import run_watched
from trajmill.pipelines.work.processes import side_by_side
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import content_id
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.shards import DataFile
from trajmill.warehouse.staged.tally import ShardTally, plan
from trajmill.warehouse.staging import mark_done, read_marker

P = TypeVar("P", contravariant=True)
T = TypeVar("T")


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
class _ShardMarker:
    """The marker of one finished shard."""

    warehouse: Warehouse
    at: StageRun
    shard: str

    def read(self) -> WrittenFiles | None:
        result = read_marker(self.warehouse, self._folder, self.shard)
        if result is None:
            return None
        files = {table: [DataFile(*values) for values in written] for table, written in result["files"].items()}
        return WrittenFiles(files, result["dropped"])

    def write(self, written: WrittenFiles) -> None:
        files = {table: [list(file) for file in written] for table, written in written.files.items()}
        mark_done(self.warehouse, self._folder, self.shard, {"files": files, "dropped": dict(written.dropped)})

    @property
    def _folder(self) -> Path:
        return self.at.staging(self.warehouse) / f"shard-{self.shard}"


class _DoShard(beam.DoFn, Generic[P]):
    def __init__(
        self,
        work: ShardWork[P] | PackedWork,
        warehouse: Warehouse,
        at: StageRun,
        items: Callable[[P], int],
        signs: Signs | None = None,
    ) -> None:
        self._sent, self._warehouse, self._at, self._items, self._signs = work, warehouse, at, items, signs

    def process(self, element: tuple[str, Any]) -> Iterable[str]:
        written = self.do(element)
        if written is not None:
            for table in written.files:
                Metrics.counter("trajmill", f"{table}_rows").inc(written.rows(table))
        yield element[0]

    def do(self, element: tuple[str, Any]) -> WrittenFiles | None:
        """Do a shard and write its marker; None if it has one already."""
        shard, payload = element
        marker = _ShardMarker(self._warehouse, self._at, shard)
        written = None
        if marker.read() is None:
            written = self._done(shard, payload)
            marker.write(written)
        ShardTally(self._at.staging(self._warehouse), shard).fill(self._items(payload))
        return written

    def _done(self, shard: str, payload: Any) -> WrittenFiles:
        if self._signs is None:
            return self._opened(shard, payload)
        with self._signs.working_on(shard):
            return self._opened(self._signs.shard_of_start(shard), payload)

    @cached_property
    def _opened(self) -> ShardWork[P]:
        """The work; opened where errors are told, since files may be fetched for it."""
        return self._sent.open() if isinstance(self._sent, PackedWork) else self._sent


def items_of(payload: object) -> int:
    """The items of a payload, as progress counts them: those of a list, else one."""
    return len(payload) if isinstance(payload, Sequence) else 1


def fan_out(
    warehouse: Warehouse,
    at: StageRun,
    payloads: Sequence[P],
    work: ShardWork[P],
    settings: BeamSettings,
    workers: int = 1,
    items: Callable[[P], int] = items_of,
) -> WrittenFiles:
    """Do `work` on every payload, each a shard of the stage, and return the files.

    A shard that an earlier call has finished with the same payload and work is kept. With more than one worker, Beam's
    in-process runner, which has one, is replaced by processes of our own; other runners bring their workers. `items`
    says how many items a payload has; the stage's progress counts them, and the work of a shard may do so one by one.

    Raises:
        TrajmillError: `work` raised it, workers on other machines were lost too often, or a worker has written to a
            folder that this process does not see.
    """
    shards = {_shard_name(number, work.identity(payload)): payload for number, payload in enumerate(payloads)}
    plan(at.staging(warehouse), sum(map(items, shards.values())))
    if workers > 1 and len(shards) > 1 and settings.on_this_machine:
        side_by_side(_DoShard(work, warehouse, at, items).do, list(shards.items()), workers)
        return _joined(_written(_ShardMarker(warehouse, at, shard)) for shard in shards)

    def build(do_shard: _DoShard[P]) -> beam.Pipeline:
        pipeline = beam.Pipeline(options=settings.pipeline_options())
        _ = (
            pipeline
            # It spreads several values over the workers, and does without the costs of that for one.
            | "Shards" >> beam.Create(list(shards.items()))
            | at.stage >> beam.ParDo(do_shard)
        )
        return pipeline

    if not shards:
        return WrittenFiles({})
    if settings.on_this_machine:
        with _original_errors(at.stage):
            build(_DoShard(work, warehouse, at, items)).run().wait_until_finish()
    else:
        sent = packed(work, warehouse.store)
        run_watched(lambda signs: build(_DoShard(sent, warehouse, at, items, signs)), warehouse, at, settings)
    return _joined(_written(_ShardMarker(warehouse, at, shard)) for shard in shards)


def split_evenly(items: Sequence[T], shards: int) -> list[Sequence[T]]:
    """Divide items, in their order, between at most `shards` lists of nearly equal length, none of them empty."""
    count = min(shards, len(items))
    ends = [-(-len(items) * number // count) for number in range(count + 1)] if count else []
    return [items[start:end] for start, end in pairwise(ends)]


def _shard_name(number: int, identity: object) -> str:
    """The number in the name keeps the files of a stage in the order of its payloads."""
    return f"{number:05d}-{content_id('shard', identity)}"


def _written(marker: _ShardMarker) -> WrittenFiles:
    written = marker.read()
    if written is None:
        raise TrajmillError(
            f"{marker.warehouse.address}: shard {marker.shard} is not there; all workers must see this folder"
        )
    return written


def _joined(shards: Iterable[WrittenFiles]) -> WrittenFiles:
    files: dict[str, list[DataFile]] = defaultdict(list)
    dropped: Counter[str] = Counter()
    for shard in shards:
        dropped.update(shard.dropped)
        for table, written in shard.files.items():
            files[table].extend(written)
    return WrittenFiles(dict(files), dict(dropped))


@contextmanager
def _original_errors(step: str) -> Iterator[None]:
    """Remove what Beam appends to the message of an error, which is one line for the user."""
    try:
        yield
    except TrajmillError as error:
        error.args = (str(error).removesuffix(f" [while running '{step}']"),)
        raise
