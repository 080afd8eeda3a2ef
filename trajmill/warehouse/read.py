"""Reads committed rows as Arrow, in batches or as records, at the newest version or an earlier one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from trajmill.schemas.record import Row
from trajmill.schemas.tables.registry import TABLES, arrow_schema, rows_from_arrow
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.shards import DataFile, file_schema, rows_per_group
from trajmill.warehouse.store.connection import damage_as_error

R = TypeVar("R", bound=Row)


class _Source(NamedTuple):
    """What is read."""

    rows: ds.FileSystemDataset
    condition: ds.Expression
    """Holds for the rows to read."""


def read_table(
    warehouse: Warehouse,
    table: str,
    columns: Sequence[str] | None = None,
    *,
    rounds: Collection[int] | None = None,
    run_id: str | None = None,
    version: int | None = None,
    where: Mapping[str, Collection[str]] | None = None,
    without: Collection[str] = (),
) -> pa.Table:
    """Read committed rows of a table, in the order of their files' names.

    Columns that a file does not have are null. A table without any commit is empty but has its columns.

    Args:
        warehouse: where to read.
        table: a name of `trajmill.schemas.tables.registry.TABLES`.
        columns: names of the columns to read, all if None.
        rounds: only rows of these rounds.
        run_id: only rows of this run.
        version: the table's version, the newest if None.
        where: by column, the values that its rows may have; files and row groups whose bounds exclude them are not
            read.
        without: names of files that are not read.

    Raises:
        BadInputError: a committed file or an entry of the table's log is missing or damaged.
    """
    with _errors(warehouse, table):
        source = _source(warehouse, table, rounds, run_id, version, where or {}, without)
        return source.rows.to_table(columns=_names(columns), filter=source.condition)


def read_batches(
    warehouse: Warehouse,
    table: str,
    columns: Sequence[str] | None = None,
    *,
    rounds: Collection[int] | None = None,
    run_id: str | None = None,
    version: int | None = None,
    where: Mapping[str, Collection[str]] | None = None,
    without: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Read as `read_table` does, batch by batch; memory holds one row group, and no row is read ahead of its reader."""
    with _errors(warehouse, table):
        source = _source(warehouse, table, rounds, run_id, version, where or {}, without)
        # A scan of many files decodes up to two million rows while its reader is at the first ones.
        for fragment in source.rows.get_fragments(source.condition):
            for part in fragment.split_by_row_group(source.condition, source.rows.schema):
                yield from part.to_batches(
                    source.rows.schema,
                    columns=_names(columns),
                    filter=source.condition,
                    batch_size=rows_per_group(table),
                )


def read_rows(
    warehouse: Warehouse,
    record: type[R],
    *,
    rounds: Collection[int] | None = None,
    run_id: str | None = None,
    version: int | None = None,
    where: Mapping[str, Collection[str]] | None = None,
) -> list[R]:
    """Read committed rows as records of their class; arguments as in `read_table`.

    Raises:
        BadInputError: a committed file or an entry of the table's log is missing or damaged.
        pydantic.ValidationError: a row is not a valid record.
    """
    table = table_of(record)
    columns = arrow_schema(table).names
    data = read_table(warehouse, table, columns, rounds=rounds, run_id=run_id, version=version, where=where)
    return [row for row in rows_from_arrow(table, data) if isinstance(row, record)]


def read_shards(
    warehouse: Warehouse, table: str, files: Sequence[DataFile], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Read columns of shards that may not be committed yet, one shard after the other."""
    system, before = warehouse.store.arrow_files()
    for file in files:
        if file.rows:
            path = f"{before}tables/{table}/{file.path}"
            yield pq.read_table(path, columns=list(columns), filesystem=system, partitioning=None)


def table_of(record: type[Row]) -> str:
    """Name of the table of a record class. Raises KeyError for a class without a table."""
    for name, row in TABLES.items():
        if row is record:
            return name
    raise KeyError(record.__name__)


@contextmanager
def _errors(warehouse: Warehouse, table: str) -> Iterator[None]:
    with warehouse.store.one_line(f"tables/{table}"), damage_as_error(warehouse.store.uri(f"tables/{table}")):
        yield


def _source(
    warehouse: Warehouse,
    table: str,
    rounds: Collection[int] | None,
    run_id: str | None,
    version: int | None,
    where: Mapping[str, Collection[str]],
    without: Collection[str],
) -> _Source:
    system, before = warehouse.store.arrow_files()
    committed = committed_files(warehouse, table, version, rounds, run_id, where)
    files = [before + warehouse.name(path) for path in committed if path.name not in without]
    condition = ds.scalar(True)
    if rounds is not None:
        condition = condition & ds.field("round").isin(list(rounds))
    if run_id is not None:
        condition = condition & (ds.field("run_id") == run_id)
    for name, values in where.items():
        [*one], column = values, ds.field(name)
        condition = condition & (column == one[0] if len(one) == 1 else column.isin(pa.array(sorted(one), pa.string())))
    schema = file_schema(table).remove_metadata()
    if files:
        return _Source(ds.dataset(files, schema=schema, format="parquet", filesystem=system), condition)
    return _Source(ds.FileSystemDataset([], schema, ds.ParquetFileFormat()), condition)


def _names(columns: Sequence[str] | None) -> list[str] | None:
    return None if columns is None else list(columns)
