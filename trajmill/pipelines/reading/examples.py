"""Reads training rows: digests of those that a release can take, whole rows some thousands at a time, and their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.record import Origin
from trajmill.stages.curate.leaks import LeakCheck
from trajmill.stages.curate.training_set import DIGESTED, DIGESTS, digests_of, shortest_successes
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_batches, read_table
from trajmill.warehouse.shards import file_schema

CANDIDATES: Final = pa.schema([*DIGESTS, ("leak", pa.string()), ("refusal", pa.string())])
"""Digests, of which `written_by` names the policy where the table leaves it out, and the fields of a `RowLeak`, null
for a row that may be learned from."""

_KEYS = ("query_id", "trajectory_id", "step_index")
_CHECKED_AT_ONCE = 2000
_ROWS_AT_ONCE = 16_384
"""As many as a row group has, which is in memory anyway: each part of a release reads all files of its rounds."""


class ExampleSet(NamedTuple):
    """The rows of table `examples` with one value in one column."""

    where: Mapping[str, list[str]]
    per_query: int | None
    """How many of the shortest successes of each query can give rows; None for all."""


class Candidates(NamedTuple):
    offered: int
    """Rows of the set, with those of longer successes."""
    rows: pa.Table
    """In the schema `CANDIDATES`, in the order in which they were stored."""


def read_candidates(warehouse: Warehouse, origin: Origin, wanted: ExampleSet, check: LeakCheck) -> Candidates:
    """Read the rows of a run up to a round with their leaks; only the texts of those that can be chosen."""
    run_id, rounds, where = origin.run_id, range(origin.round + 1), wanted.where
    keys = read_table(warehouse, "examples", _KEYS, rounds=rounds, run_id=run_id, where=where)
    chosen = keys["trajectory_id"].unique()
    if wanted.per_query is not None:
        chosen = pa.array(sorted(shortest_successes(keys, wanted.per_query)), pa.string())
    tables = [CANDIDATES.empty_table()]
    for batch in read_batches(warehouse, "examples", DIGESTED, rounds=rounds, run_id=run_id, where=where):
        rows = pa.Table.from_batches([batch.filter(pc.is_in(batch["trajectory_id"], chosen))])
        for start in range(0, len(rows), _CHECKED_AT_ONCE):
            part = rows.slice(start, _CHECKED_AT_ONCE)
            leaks = check.examples(part)
            found = [leaks.get(example_id) for example_id in part["example_id"].to_pylist()]
            reasons, refusals = [leak and leak.reason for leak in found], [leak and leak.refusal for leak in found]
            columns = [*digests_of(part).columns, pa.array(reasons, pa.string()), pa.array(refusals, pa.string())]
            tables.append(pa.table(columns, schema=CANDIDATES))
    rows = pa.concat_tables(tables)
    # The author is the policy of a row's trajectory where none is stored.
    made = read_table(warehouse, "trajectories", ["trajectory_id", "model_version"], rounds=rounds, run_id=run_id)
    policies = made["model_version"].take(pc.index_in(rows["trajectory_id"], made["trajectory_id"].combine_chunks()))
    place, authors = rows.schema.get_field_index("written_by"), pc.coalesce(rows["written_by"], policies)
    return Candidates(keys.num_rows, rows.set_column(place, CANDIDATES.field("written_by"), authors))


@dataclass(frozen=True)
class StoredExamples:
    warehouse: Warehouse
    run_id: str
    where: Mapping[str, list[str]]
    digests: pa.Table
    """The rows in their order, in the schema `DIGESTS`, with the weights that they have in a release."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, self.digests.num_rows, _ROWS_AT_ONCE):
            yield from self._read(self.digests.slice(start, _ROWS_AT_ONCE))

    def screens(self) -> set[str]:
        batches = self._found(self.digests, ["example_id", "screens"])
        return {screen for batch in batches for screen in batch["screens"].flatten().unique().to_pylist()}

    def _read(self, digests: pa.Table) -> list[pa.RecordBatch]:
        rows = pa.Table.from_batches(self._found(digests), file_schema("examples").remove_metadata())
        places = pc.index_in(digests["example_id"].combine_chunks(), rows["example_id"].combine_chunks())
        chosen: list[pa.RecordBatch] = rows.take(places).to_batches()
        return chosen

    def _found(self, digests: pa.Table, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read some of the rows, in the order of the table: only files of their rounds are opened."""
        ids, rounds = digests["example_id"].combine_chunks(), digests["round"].unique().to_pylist()
        read = read_batches(self.warehouse, "examples", columns, rounds=rounds, run_id=self.run_id, where=self.where)
        for batch in read:
            yield batch.filter(pc.is_in(batch["example_id"], ids))
