"""How a stage fans out: one Beam element per shard, each shard written once, its files named by a marker.

Beam may run a shard again after a failure, and a killed run is started again: a shard whose marker stands is skipped,
any other is done anew and writes the same files.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.options.pipeline_options import PipelineOptions

from trajmill.schemas.errors import TrajmillError
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.shards import DataFile
from trajmill.warehouse.staging import mark_done, read_marker

P = TypeVar("P", contravariant=True)
T = TypeVar("T")


@dataclass(frozen=True)
class ShardOutput:
    """What one shard has made."""

    files: Mapping[str, DataFile]
    """The file written, by table."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """How much became no row, by reason."""


@dataclass(frozen=True)
class StageOutput:
    """What all shards of a stage have made."""

    files: Mapping[str, Sequence[DataFile]]
    """The files written, by table."""
    dropped: Mapping[str, int]
    """How much became no row, by reason."""

    def rows(self, table: str) -> int:
        """Rows written for a table."""
        return sum(file.rows for file in self.files.get(table, ()))


class ShardWork(Protocol[P]):
    """What is done with one shard; picklable."""

    def __call__(self, shard: int, payload: P, /) -> ShardOutput:
        """Do the work of a shard and write its files."""
        ...


@dataclass(frozen=True)
class BeamSettings:
    """Where pipelines run. The in-process runner is named because Beam's default tries to download another."""

    runner: str = "FnApiRunner"
    options: tuple[str, ...] = ()
    """Further Beam options, e.g. `--flink_master=...`."""

    def pipeline_options(self) -> PipelineOptions:
        """The options as Beam reads them."""
        return PipelineOptions([f"--runner={self.runner}", *self.options])


@dataclass(frozen=True)
class _ShardMarker:
    folder: Path
    key: str

    def read(self) -> ShardOutput | None:
        result = read_marker(self.folder, self.key)
        if result is None:
            return None
        return ShardOutput({table: DataFile(*values) for table, values in result["files"].items()}, result["dropped"])

    def write(self, output: ShardOutput) -> None:
        files = {table: list(file) for table, file in output.files.items()}
        mark_done(self.folder, self.key, {"files": files, "dropped": dict(output.dropped)})


class _DoShard(beam.DoFn, Generic[P]):
    def __init__(self, work: ShardWork[P], staging: Path, key: str) -> None:
        self._work, self._staging, self._key = work, staging, key

    def process(self, element: tuple[int, Any]) -> Iterable[int]:
        shard, payload = element
        marker = _marker(self._staging, self._key, shard)
        if marker.read() is None:
            output = self._work(shard, payload)
            marker.write(output)
            for table, file in output.files.items():
                Metrics.counter("trajmill", f"{table}_rows").inc(file.rows)
        yield shard


def fan_out(
    warehouse: Warehouse, at: StageRun, key: str, payloads: Sequence[P], work: ShardWork[P], settings: BeamSettings
) -> StageOutput:
    """Do `work` on every payload as a shard of the stage and return what was made.

    `key` identifies configuration and inputs: shards that an earlier try finished under the same key stand.

    Raises:
        TrajmillError: as `work` raised it.
    """
    staging = at.staging(warehouse)
    with _errors_as_raised(at.stage), beam.Pipeline(options=settings.pipeline_options()) as pipeline:
        (
            pipeline
            | "Shards" >> beam.Create(list(enumerate(payloads)))
            | "Spread" >> beam.Reshuffle()
            | at.stage >> beam.ParDo(_DoShard(work, staging, key))
        )
    outputs = [output for shard in range(len(payloads)) if (output := _marker(staging, key, shard).read())]
    files: dict[str, list[DataFile]] = defaultdict(list)
    dropped: Counter[str] = Counter()
    for output in outputs:
        dropped.update(output.dropped)
        for table, file in output.files.items():
            files[table].append(file)
    return StageOutput(dict(files), dict(dropped))


def split_evenly(items: Sequence[T], shards: int) -> list[Sequence[T]]:
    """Deal items out to at most `shards` lists of nearly equal length, none of them empty."""
    return [items[start::shards] for start in range(min(shards, len(items)))]


@contextmanager
def _errors_as_raised(step: str) -> Iterator[None]:
    """Take off what Beam appends to the text of an error: it is one line for the user."""
    try:
        yield
    except TrajmillError as error:
        error.args = (str(error).removesuffix(f" [while running '{step}']"),)
        raise


def _marker(staging: Path, key: str, shard: int) -> _ShardMarker:
    return _ShardMarker(staging / f"shard-{shard:05d}", f"{key}-{shard}")
