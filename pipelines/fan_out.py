"""How a stage fans out: one Beam element per shard, each shard written once, its files named by a marker.

Beam may run a shard again after a failure, and a killed run is started again: a shard whose marker stands is skipped,
any other is done anew and writes the same files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.options.pipeline_options import PipelineOptions

from warehouse.layout import StageRun, Warehouse
from warehouse.shards import DataFile
from warehouse.staging import mark_done, read_marker

P = TypeVar("P", contravariant=True)
T = TypeVar("T")


class ShardWork(Protocol[P]):
    """What is done with one shard; picklable."""

    def __call__(self, shard: int, payload: P, /) -> Mapping[str, DataFile]:
        """Do the work of a shard and write its files, by table."""
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

    def read(self) -> dict[str, DataFile] | None:
        result = read_marker(self.folder, self.key)
        return None if result is None else {table: DataFile(*values) for table, values in result.items()}

    def write(self, files: Mapping[str, DataFile]) -> None:
        mark_done(self.folder, self.key, {table: list(file) for table, file in files.items()})


class _DoShard(beam.DoFn, Generic[P]):
    def __init__(self, work: ShardWork[P], staging: Path, key: str) -> None:
        self._work, self._staging, self._key = work, staging, key

    def process(self, element: tuple[int, Any]) -> Iterable[int]:
        shard, payload = element
        marker = _marker(self._staging, self._key, shard)
        if marker.read() is None:
            files = self._work(shard, payload)
            marker.write(files)
            for table, file in files.items():
                Metrics.counter("trajmill", f"{table}_rows").inc(file.rows)
        yield shard


def fan_out(
    warehouse: Warehouse, at: StageRun, key: str, payloads: Sequence[P], work: ShardWork[P], settings: BeamSettings
) -> dict[str, list[DataFile]]:
    """Do `work` on every payload as a shard of the stage and return the files written, by table.

    `key` identifies configuration and inputs: shards that an earlier try finished under the same key stand.
    """
    staging = at.staging(warehouse)
    with beam.Pipeline(options=settings.pipeline_options()) as pipeline:
        (
            pipeline
            | "Shards" >> beam.Create(list(enumerate(payloads)))
            | "Spread" >> beam.Reshuffle()
            | at.stage >> beam.ParDo(_DoShard(work, staging, key))
        )
    files: dict[str, list[DataFile]] = defaultdict(list)
    for shard in range(len(payloads)):
        for table, file in (_marker(staging, key, shard).read() or {}).items():
            files[table].append(file)
    return dict(files)


def split_evenly(items: Sequence[T], shards: int) -> list[Sequence[T]]:
    """Deal items out to at most `shards` lists of nearly equal length, none of them empty."""
    return [items[start::shards] for start in range(min(shards, len(items)))]


def _marker(staging: Path, key: str, shard: int) -> _ShardMarker:
    return _ShardMarker(staging / f"shard-{shard:05d}", f"{key}-{shard}")
