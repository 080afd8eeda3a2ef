"""Reads whole training rows in the order of their digests, of which memory holds some thousands at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.warehouse.columns import file_schema
from trajmill.warehouse.delta_log import Between
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_batches

_ROWS_AT_ONCE = 8192


def shown_screens(warehouse: Warehouse, run_id: str, bounds: Between, digests: pa.Table) -> set[str]:
    """Ids of the screens that rows of table `examples` show; arguments as in `StoredExamples`."""
    ids, rounds = digests["example_id"].combine_chunks(), digests["round"].unique().to_pylist()
    columns, found = ["example_id", "screens"], set[str]()
    for batch in read_batches(warehouse, "examples", columns, rounds=rounds, run_id=run_id, between=bounds):
        chosen = batch.filter(pc.is_in(batch["example_id"], ids))
        found.update(chosen["screens"].flatten().unique().to_pylist())
    return found


@dataclass(frozen=True)
class StoredExamples:
    """Rows of table `examples`; they can be iterated over several times."""

    warehouse: Warehouse
    run_id: str
    bounds: Between
    """What all of the rows have in one column."""
    digests: pa.Table
    """The rows, in the schema `DIGESTS`."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Read the rows in their order."""
        if self.digests.num_rows <= _ROWS_AT_ONCE:
            yield from self._few
        else:
            for start in range(0, self.digests.num_rows, _ROWS_AT_ONCE):
                yield from self._read(self.digests.slice(start, _ROWS_AT_ONCE)).to_batches()

    @cached_property
    def _few(self) -> list[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = self._read(self.digests).to_batches()
        return batches

    def _read(self, digests: pa.Table) -> pa.Table:
        """One part of the rows: only files of its rounds are read."""
        ids = digests["example_id"].combine_chunks()
        rounds = digests["round"].unique().to_pylist()
        batches = read_batches(self.warehouse, "examples", rounds=rounds, run_id=self.run_id, between=self.bounds)
        found = [batch.filter(pc.is_in(batch["example_id"], ids)) for batch in batches]
        rows = pa.Table.from_batches(found, file_schema("examples").remove_metadata())
        return rows.take(pc.index_in(ids, rows["example_id"].combine_chunks()))
