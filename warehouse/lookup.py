"""Finds the rows of one or a few trajectories, queries or guidance quickly, however many rows a table has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple

import duckdb
import pyarrow as pa

from trajmill.warehouse.checks.unreadable import unreadable
from trajmill.warehouse.columns import stored_schema
from trajmill.warehouse.delta_log import Between, FileBounds, file_bounds, newest_log_entry, newest_table
from trajmill.warehouse.kept_bounds import KeptBounds, newest_bounds
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.views import OFFLINE


class _KnownLog(NamedTuple):
    """A log that was read because its last commit kept no bounds."""

    entry: str
    bounds: FileBounds | None
    """None for a table without a commit."""


class Among(NamedTuple):
    """Values that a text column may have."""

    column: str
    values: Collection[str]


class RowLookup:
    """Reads rows by the values of their columns; several threads may use it.

    A table's bounds of rounds, runs and ids tell which files can have the rows. Each reading looks for a new commit.
    Of these DuckDB reads the columns of the condition, and of the others only what belongs to the rows that it found;
    row groups without them are skipped by their statistics. pyarrow decodes whole row groups.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        """Read nothing yet."""
        self._warehouse = warehouse
        self._kept: dict[str, KeptBounds] = {}
        self._logs: dict[str, _KnownLog] = {}

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        database = duckdb.connect(config=OFFLINE)
        self._warehouse.store.register(database)
        # Committed files never change, so their footers are kept; a reading has a connection of its own.
        return database.execute("SET GLOBAL parquet_metadata_cache = true")

    def prepare(self, tables: Collection[str]) -> None:
        """Start DuckDB and read the bounds of tables, all side by side.

        Raises:
            BadInputError: an entry of a table's log is missing or damaged.
        """
        with ThreadPoolExecutor(len(tables)) as pool:
            bounds = pool.map(self._bounds, tables)
            _ = self._database
            list(bounds)

    def read(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        run_id: str | None = None,
        rounds: Collection[int] | None = None,
        where: Mapping[str, str] | None = None,
        starts: Mapping[str, str] | None = None,
        among: Among | None = None,
    ) -> pa.Table:
        """Read the rows for which everything holds, in the order in which they are stored; lacking columns are null.

        Args:
            table: its name.
            columns: names of columns to read, which every file must have; all if None.
            run_id: the run of the rows.
            rounds: the rounds of the rows.
            where: the values of columns.
            starts: how the texts of columns start.
            among: the values that a column may have.

        Raises:
            BadInputError: a committed file or an entry of the table's log is missing or damaged.
            KeyError: no such table or column.
        """
        equal = dict(where or {}) if run_id is None else {**(where or {}), "run_id": run_id}
        files = self._files(table, rounds, equal, among)
        schema = stored_schema(table)
        if not files:
            return pa.Table.from_batches([], schema).select(list(columns or schema.names))
        names = [_quoted(schema, column) for column in columns or ()]
        conditions = [f"{_quoted(schema, column)} = ?" for column in equal]
        conditions += [f"starts_with({_quoted(schema, column)}, ?)" for column in starts or {}]
        parameters: list[object] = [files, *equal.values(), *(starts or {}).values()]
        if rounds is not None:
            # The bounds leave row groups out, which a list does not.
            conditions.append("round BETWEEN ? AND ? AND list_contains(?, round)")
            parameters += [min(rounds), max(rounds), list(rounds)]
        if among is not None:
            conditions.append(f"{_quoted(schema, among.column)} IN (SELECT unnest(?))")
            parameters.append(list(among.values))
        # A union of the columns opens every file before the first row is read.
        union = "false" if columns else "true"
        query = (
            f"SELECT {', '.join(names) or '*'} "
            f"FROM read_parquet(?, union_by_name = {union}, hive_partitioning = false) "
            f"WHERE {' AND '.join(conditions) or 'true'}"
        )
        try:
            with self._database.cursor() as cursor:
                found = cursor.sql(query, params=parameters).to_arrow_table()
        except duckdb.Error as error:
            raise unreadable(self._warehouse.store.uri(f"tables/{table}"), error) from error
        return found if columns else _with_all_columns(schema, found)

    def _files(
        self, table: str, rounds: Collection[int] | None, equal: Mapping[str, str], among: Among | None
    ) -> list[str]:
        bounds, uri = self._bounds(table), self._warehouse.store.uri
        if bounds is None or (among is not None and not among.values):
            return []
        between = among and Between(among.column, min(among.values), max(among.values))
        return [uri(f"tables/{table}/{name}") for name in bounds.names(rounds, equal, between)]

    def _bounds(self, table: str) -> FileBounds | None:
        kept = newest_bounds(self._warehouse, table, self._kept.get(table))
        if kept is not None:
            self._kept[table] = kept
            return kept.bounds
        known, entry = self._logs.get(table), newest_log_entry(self._warehouse, table)
        if known is None or known.entry != entry:
            delta = newest_table(self._warehouse, table)
            known = self._logs[table] = _KnownLog(entry, None if delta is None else file_bounds(delta))
        return known.bounds


def _with_all_columns(schema: pa.Schema, rows: pa.Table) -> pa.Table:
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field.with_nullable(True), pa.nulls(rows.num_rows, field.type))
    return rows


def _quoted(schema: pa.Schema, column: str) -> str:
    return f'"{schema.field(column).name}"'
