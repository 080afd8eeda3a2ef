"""Reads committed rows as Arrow, in batches or as records, at the newest version or an earlier one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict, TypeVar, Unpack

import pyarrow as pa
import pyarrow.dataset as ds

from trajmill.schemas.names import refuse_unknown
from trajmill.schemas.record import Row, table_schema
from trajmill.schemas.tables.registry import TABLES, rows_from_arrow
from trajmill.warehouse.delta_log import committed_names
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.shards import CHECKED_FORMAT, DataFile, check_footers, file_schema, read_file, rows_per_group
from trajmill.warehouse.store.connection import damage_as_error

R = TypeVar("R", bound=Row)


class WantedRows(TypedDict, total=False):
    rounds: Collection[int] | None
    run_id: str | None
    version: int | None
    """The table's version; the newest without one."""
    where: Mapping[str, Collection[str]] | None
    """By column, the values that its rows may have; files and row groups whose bounds exclude them are not read."""


def read_table(
    warehouse: Warehouse, table: str, columns: Sequence[str] | None = None, **wanted: Unpack[WantedRows]
) -> pa.Table:
    """Read committed rows of a table, in the order of their files' names; all columns if `columns` is None.

    Columns that a file does not have are null. A table without any commit is empty but has its columns. Raises
    BadInputError for a wrong name, or if a committed file or an entry of the table's log is missing or damaged.
    """
    with _source(warehouse, table, columns, wanted) as (rows, condition):
        return rows.to_table(columns=columns and list(columns), filter=condition, cache_metadata=False)


def read_batches(
    warehouse: Warehouse, table: str, columns: Sequence[str] | None = None, **wanted: Unpack[WantedRows]
) -> Iterator[pa.RecordBatch]:
    """Read as `read_table` does, batch by batch; memory holds one row group, and no row is read ahead of its reader."""
    with _source(warehouse, table, columns, wanted) as (rows, condition):
        # A scan of many files decodes up to two million rows while its reader is at the first ones.
        for path in rows.files:
            # Those of the data set keep the footers of all files.
            fragment = rows.format.make_fragment(path, rows.filesystem)
            for part in fragment.split_by_row_group(condition, rows.schema):
                size, names = rows_per_group(table), columns and list(columns)
                yield from part.to_batches(rows.schema, columns=names, filter=condition, batch_size=size)


def read_tuples(
    warehouse: Warehouse, table: str, columns: Sequence[str], **wanted: Unpack[WantedRows]
) -> Iterator[tuple[Any, ...]]:
    return tuples(read_table(warehouse, table, columns, **wanted))


def tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def read_rows(warehouse: Warehouse, record: type[R], **wanted: Unpack[WantedRows]) -> list[R]:
    """Read committed rows as records of their class. Raises pydantic.ValidationError if a row is no valid record."""
    data = read_table(warehouse, table_of(record), table_schema(record).names, **wanted)
    return rows_from_arrow(record, data)


def read_shards(warehouse: Warehouse, table: str, files: Sequence[DataFile], columns: Sequence[str]) -> pa.Table:
    """Read columns of shards that may not be committed yet."""
    shards = (read_file(warehouse, f"tables/{table}/{file.path}", *columns) for file in files if file.rows)
    return pa.concat_tables([file_schema(table).remove_metadata().empty_table().select(columns), *shards])


def table_of(record: type[Row]) -> str:
    """Return the name of a record class's table. Raises KeyError for a class without a table."""
    return {row: name for name, row in TABLES.items()}[record]


@contextmanager
def _source(
    warehouse: Warehouse, table: str, columns: Sequence[str] | None, wanted: WantedRows
) -> Iterator[tuple[ds.FileSystemDataset, ds.Expression]]:
    refuse_unknown([table], TABLES, "there is no table")
    refuse_unknown(wanted, WantedRows.__annotations__, "rows are not selected by")
    refuse_unknown([*(columns or ()), *(wanted.get("where") or ())], file_schema(table).names, f"{table} has no column")
    rounds, run_id, where = wanted.get("rounds"), wanted.get("run_id"), wanted.get("where") or {}
    with warehouse.store.one_line(f"tables/{table}"), damage_as_error(warehouse.store.uri(f"tables/{table}")):
        system, before = warehouse.store.arrow_files()
        committed = committed_names(warehouse, table, wanted.get("version"), rounds, run_id, where)
        check_footers(warehouse, committed)
        files = [before + name for name in committed]
        condition = ds.scalar(True)
        if rounds is not None:
            condition = condition & ds.field("round").isin(list(rounds))
        if run_id is not None:
            condition = condition & (ds.field("run_id") == run_id)
        for name, values in where.items():
            [*one], column = values, ds.field(name)
            is_wanted = column == one[0] if len(one) == 1 else column.isin(pa.array(sorted(one), pa.string()))
            condition = condition & is_wanted
        schema = file_schema(table).remove_metadata()
        if files:
            yield ds.dataset(files, schema=schema, format=CHECKED_FORMAT, filesystem=system), condition
        else:
            yield ds.FileSystemDataset([], schema, CHECKED_FORMAT), condition
