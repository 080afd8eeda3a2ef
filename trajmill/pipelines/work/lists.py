"""Lists what a stage is to do in a staged file, and names ranges of it: what travels through Beam is such a name.

A list is a Parquet file in the stage's staging folder whose row groups are the ranges. A worker reads the row group
that it was named, and then the committed rows of these items. So neither Beam's graph nor a shard grows with the round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.pipelines.engine.settings import BeamSettings
from trajmill.pipelines.fan_out import ShardWork, WrittenFiles, fan_out, split_evenly
from trajmill.schemas.record import content_id
from trajmill.warehouse.atomic import replacing
from trajmill.warehouse.layout import StageRun, Warehouse

T = TypeVar("T")

MOST_IN_RANGE = 1000
"""Most trajectories in a range: its rows are held in memory, and a killed stage loses only unfinished shards."""
_ITEM = pa.schema([("item", pa.string())])


class WorkRange(NamedTuple):
    """Names a range of a staged list."""

    file: str
    """Name of the list in the staging folder of its stage; it has a hash of the items."""
    group: int
    """The row group of the file."""
    identity: str
    """Hash of what decides the rows of the range, so that another division or list gives another shard."""
    items: int = 1
    """How many it has, for the progress of the stage."""


@dataclass(frozen=True)
class ListedWork(Generic[T]):
    """Does the work of a shard whose items stand in a list."""

    warehouse: Warehouse
    at: StageRun
    work: ShardWork[Sequence[T]]
    decode: Callable[[str], T]
    """Reads an item; picklable."""

    def identity(self, piece: WorkRange) -> object:
        """The hash that the range was given when it was listed."""
        return piece.identity

    def __call__(self, shard: str, piece: WorkRange) -> WrittenFiles:
        """Read the items of the range and do the work on them."""
        return self.work(shard, [self.decode(text) for text in read_range(self.warehouse, self.at, piece)])


def fan_out_listed(
    warehouse: Warehouse,
    at: StageRun,
    items: Sequence[T],
    work: ShardWork[Sequence[T]],
    settings: BeamSettings,
    *,
    workers: int,
    most: int = MOST_IN_RANGE,
    encode: Callable[[T], str] = str,
    decode: Callable[[str], T],
    near: Callable[[T], Any] | None = None,
) -> WrittenFiles:
    """List items, do `work` on ranges of the list, each a shard of the stage, and return the files in their order.

    Args:
        warehouse: where the list and the shards are.
        at: the stage.
        items: what to do; neighbours come into one shard, so sort them as their rows are stored.
        work: done on the items of each range.
        settings: the Beam runner.
        workers: worker processes on this machine; there are at least as many ranges, if there are as many items.
        most: the most items of a range.
        encode: writes an item as text.
        decode: reads it; picklable.
        near: as in `list_work`.
    """
    ranges = list_work(warehouse, at, items, work.identity, workers=workers, most=most, encode=encode, near=near)
    listed = ListedWork(warehouse, at, work, decode)
    return fan_out(warehouse, at, ranges, listed, settings, workers, attrgetter("items"))


def list_work(
    warehouse: Warehouse,
    at: StageRun,
    items: Sequence[T],
    identity: Callable[[Sequence[T]], object],
    *,
    workers: int,
    most: int = MOST_IN_RANGE,
    encode: Callable[[T], str] = str,
    near: Callable[[T], Any] | None = None,
) -> list[WorkRange]:
    """Write the list of a stage and return its ranges.

    Args:
        warehouse: where the list is.
        at: the stage.
        items: the items of the list.
        identity: everything that decides the rows of some items, as JSON values.
        workers: as in `fan_out_listed`.
        most: as there.
        encode: as there.
        near: the order in which the items are divided, if it is not their own; a range keeps their own. So a range has
            what is stored side by side, though its rows are written in another order.
    """
    places: Sequence[int] = range(len(items))
    if near is not None:
        places = sorted(places, key=lambda place: near(items[place]))
    divided = split_evenly(places, max(workers, ceil(len(items) / most)))
    parts = [[items[place] for place in sorted(part)] for part in divided]
    if not parts:
        return []
    identities = [content_id("range", identity(part)) for part in parts]
    file = f"list-{content_id('list', identities)}.parquet"
    path = at.staging(warehouse) / file
    with replacing(path) as temporary, pq.ParquetWriter(temporary, _ITEM, compression="ZSTD") as writer:
        for part in parts:
            writer.write_table(pa.table([[encode(item) for item in part]], schema=_ITEM), row_group_size=len(part))
    warehouse.store.publish(warehouse.name(path))
    named = zip(parts, identities, strict=True)
    return [WorkRange(file, group, identity, len(part)) for group, (part, identity) in enumerate(named)]


def read_range(warehouse: Warehouse, at: StageRun, piece: WorkRange) -> list[str]:
    """Read the items of a range, as text."""
    system, before = warehouse.store.arrow_files()
    name = before + warehouse.name(at.staging(warehouse) / piece.file)
    with pq.ParquetFile(name, filesystem=system) as file:
        items: list[str] = file.read_row_group(piece.group).column(0).to_pylist()
    return items
