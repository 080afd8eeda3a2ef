"""Reads the training rows that a release can take, as digests; those of earlier rounds from what is kept of them."""

from __future__ import annotations

import io
from collections.abc import Collection
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from trajmill.pipelines.reading.kept_files import KeptFiles
from trajmill.pipelines.reading.newest_first import Wanted, values_by_id
from trajmill.schemas.record import Origin, Record, content_id
from trajmill.stages.curate.leaks import LeakCheck, RowLeak
from trajmill.stages.curate.training_set import DIGESTED, DIGESTS, digests_of, shortest_successes, successes_in
from trajmill.stages.derive.end_to_end import KIND as END_TO_END
from trajmill.warehouse.delta_log import Between, committed_files
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_batches, read_table

CANDIDATES: Final = pa.schema([*DIGESTS, ("leak", pa.string()), ("refusal", pa.string())])
"""Digests, of which `written_by` names the policy where the table leaves it out, and the fields of a `RowLeak`, null
for a row that may be learned from."""

_KEYS = ("query_id", "trajectory_id", "step_index")
_HEADER = b"trajmill"
_ROWS_AT_ONCE = 2000


class Sort(NamedTuple):
    """Which rows of table `examples` can be taken."""

    column: str
    value: str
    """The value that they have in this column."""
    per_query: int | None
    """So many of the shortest successes of each query can give rows; None for all."""

    @property
    def bounds(self) -> Between:
        """What the rows are found by."""
        return Between(self.column, self.value, self.value)


def supervised(per_query: int) -> Sort:
    """The rows that rounds derive, of so many trajectories of each query."""
    return Sort("kind", END_TO_END, per_query)


def derived(made_by: str) -> Sort:
    """All rows of a derived kind that one version of its settings has made."""
    return Sort("made_by", made_by, None)


class Candidates(NamedTuple):
    """The rows that a release can take."""

    offered: int
    """Rows of their sort, with those of longer successes."""
    rows: pa.Table
    """In the schema `CANDIDATES`, in the order in which they were stored."""


class _Header(Record):
    """What kept rows depend on, and their number with those that are not kept."""

    per_query: int | None
    check: str
    code_version: str
    files: tuple[str, ...]
    offered: int


def read_candidates(warehouse: Warehouse, origin: Origin, sort: Sort, check: LeakCheck) -> Candidates:
    """Read the rows of a run up to a round, with what leaks in them.

    Only files that were committed since rows were kept last are read, and of these the texts of trajectories that can
    be chosen. A trajectory that is too long never can be later: the rows of one are committed together.

    Args:
        warehouse: where to read.
        origin: the run and the round.
        sort: which rows.
        check: finds leaks in the texts.
    """
    kept_files = KeptFiles(warehouse, origin.run_id, f"candidates/{content_id(sort.column, sort.value)}", ".parquet")
    before = origin.round + 1
    names = _FileNames(warehouse, origin.run_id, sort)
    header = _Header(
        per_query=sort.per_query,
        check=check.identity,
        code_version=origin.code_version,
        files=names.of(range(before)),
        offered=0,
    )
    kept = _kept(kept_files, before, header, names)
    covered = frozenset(kept.header.files)
    if kept.before == before and covered == frozenset(header.files):
        return Candidates(kept.header.offered, kept.rows)
    made = _with_new(warehouse, origin, sort, check, kept, covered)
    if made.offered:
        kept_files.keep(before, _written(header.model_copy(update={"offered": made.offered}), made.rows))
    return made


class _FileNames(NamedTuple):
    """The committed files of table `examples`."""

    warehouse: Warehouse
    run_id: str
    sort: Sort

    def of(self, rounds: Collection[int]) -> tuple[str, ...]:
        """Names of those that can have rows of the sort in some rounds."""
        files = committed_files(self.warehouse, "examples", None, rounds, self.run_id, self.sort.bounds)
        return tuple(path.name for path in files)


class _Kept(NamedTuple):
    before: int
    header: _Header
    rows: pa.Table


def _kept(files: KeptFiles, before: int, wanted: _Header, names: _FileNames) -> _Kept:
    """The newest kept rows that are as they would be if they were read now."""
    for file in files.newest_first(before):
        kept = _read(file.before, file.contents)
        if kept is None:
            continue
        as_wanted = kept.header.model_copy(update={"files": wanted.files, "offered": 0}) == wanted
        # A file that was there already may have rows of later rounds only where files were joined.
        later = names.of(range(file.before, before)) if file.before < before else ()
        covered = set(kept.header.files)
        if as_wanted and covered <= set(wanted.files) and not covered.intersection(later):
            return kept
    return _Kept(0, wanted.model_copy(update={"files": ()}), CANDIDATES.empty_table())


def _with_new(
    warehouse: Warehouse, origin: Origin, sort: Sort, check: LeakCheck, kept: _Kept, covered: frozenset[str]
) -> Candidates:
    """Kept rows and those of other files, without those of trajectories that are too long by now."""
    run_id, rounds, between = origin.run_id, range(origin.round + 1), sort.bounds
    keys = read_table(warehouse, "examples", _KEYS, rounds=rounds, run_id=run_id, between=between, without=covered)
    keys = keys.cast(pa.schema([DIGESTS.field(name) for name in _KEYS]))
    chosen = _trajectories(pa.concat_tables([kept.rows.select(_KEYS), keys]), sort.per_query)
    batches = read_batches(
        warehouse, "examples", DIGESTED, rounds=rounds, run_id=run_id, between=between, without=covered
    )
    tables = [CANDIDATES.empty_table()]
    for batch in batches:
        wanted = pa.Table.from_batches([batch.filter(pc.is_in(batch["trajectory_id"], chosen))])
        tables += [_checked(wanted.slice(at, _ROWS_AT_ONCE), check) for at in range(0, wanted.num_rows, _ROWS_AT_ONCE)]
    new = pa.concat_tables(tables)
    rows = pa.concat_tables([kept.rows, _with_authors(warehouse, origin, new)])
    rows = rows.filter(pc.is_in(rows["trajectory_id"], chosen))
    return Candidates(kept.header.offered + keys.num_rows, rows)


def _trajectories(keys: pa.Table, per_query: int | None) -> pa.Array:
    if per_query is None:
        return keys["trajectory_id"].unique()
    return pa.array(sorted(shortest_successes(successes_in(keys), per_query)), pa.string())


def _checked(examples: pa.Table, check: LeakCheck) -> pa.Table:
    """The digests of rows with what leaks in them."""
    leaks = check.examples(examples)
    found = [leaks.get(example_id) for example_id in examples["example_id"].to_pylist()]
    columns = [[leak and leak.reason for leak in found], [leak and leak.refusal for leak in found]]
    digests = digests_of(examples)
    return pa.table([*digests.columns, *(pa.array(column, pa.string()) for column in columns)], schema=CANDIDATES)


def leaks_of(rows: pa.Table) -> dict[str, RowLeak]:
    """By id, the leaks in candidates."""
    leaking = rows.filter(pc.is_valid(rows["leak"])).select(["example_id", "leak", "refusal"])
    found = zip(*(column.to_pylist() for column in leaking.columns), strict=True)
    return {example_id: RowLeak(reason, refusal) for example_id, reason, refusal in found}


def _with_authors(warehouse: Warehouse, origin: Origin, rows: pa.Table) -> pa.Table:
    """Rows whose author is the policy of their trajectory where none is stored."""
    unnamed = rows.filter(pc.is_null(rows["written_by"]))
    ids, rounds = unnamed["trajectory_id"].unique().to_pylist(), unnamed["round"].unique().to_pylist()
    wanted = Wanted("trajectories", "trajectory_id", "model_version")
    policies = values_by_id(warehouse, origin, wanted, ids, rounds)
    columns = (rows[name].to_pylist() for name in ("written_by", "trajectory_id"))
    authors = [
        policies.get(trajectory) if author is None else author for author, trajectory in zip(*columns, strict=True)
    ]
    place = rows.schema.get_field_index("written_by")
    return rows.set_column(place, CANDIDATES.field("written_by"), pa.array(authors, pa.string()))


def _written(header: _Header, rows: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(rows.replace_schema_metadata({_HEADER: header.model_dump_json()}), file, compression="zstd")
    return file.getvalue()


def _read(before: int, contents: bytes) -> _Kept | None:
    """Kept rows; None if an earlier trajmill kept them in another form."""
    rows = pq.read_table(pa.BufferReader(contents))
    try:
        header = _Header.model_validate_json((rows.schema.metadata or {}).get(_HEADER, b""))
    except ValidationError:
        return None
    rows = rows.replace_schema_metadata()
    return _Kept(before, header, rows) if rows.schema == CANDIDATES else None
