"""Finds the rows of one or a few trajectories, queries or guidance quickly, however many rows a table has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa

from trajmill.warehouse.bounds.conditions import Among, Condition, StartsWith, origin_conditions
from trajmill.warehouse.bounds.files import FileBounds
from trajmill.warehouse.bounds.kept import KeptBounds, newest_bounds
from trajmill.warehouse.bounds.row_groups import KeptFooters
from trajmill.warehouse.checks.unreadable import damage_as_error
from trajmill.warehouse.columns import stored_schema
from trajmill.warehouse.delta_log import file_bounds, newest_log_entry, newest_table
from trajmill.warehouse.layout import Warehouse

_FEW_FILES = 4
"""Of so many and more, some are read side by side."""
_FILES_AT_ONCE = 4


class _KnownTable(NamedTuple):
    """What was read of a table's newest version."""

    kept: KeptBounds | None
    """None if its commit kept none, so that the log was read."""
    entry: str
    """The newest entry of that log."""
    bounds: FileBounds | None
    """None for a table without a commit."""
    footers: KeptFooters


class RowLookup:
    """Reads rows by the values of their columns; several threads may use it.

    A table's bounds of rounds, runs and ids tell which files can have the rows, and the footer of a file which of its
    row groups. Each reading looks for a new commit; footers are kept until there is one.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        """Read nothing yet."""
        self._warehouse = warehouse
        self._tables: dict[str, _KnownTable] = {}

    def prepare(self, tables: Collection[str]) -> None:
        """Read the bounds of tables side by side.

        Raises:
            BadInputError: an entry of a table's log is missing or damaged.
        """
        with ThreadPoolExecutor(len(tables)) as pool:
            list(pool.map(self._known, tables))

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
        """Read the rows for which everything holds, in the order in which they are stored.

        Columns that a file does not have are null.

        Args:
            table: its name.
            columns: names of columns to read; all if None.
            run_id: the run of the rows.
            rounds: the rounds of the rows.
            where: the values of columns.
            starts: how the texts of columns start.
            among: the values that a column may have.

        Raises:
            BadInputError: a committed file or an entry of the table's log is missing or damaged.
            KeyError: no such table or column.
        """
        conditions: list[Condition] = [*origin_conditions(rounds, run_id), *([] if among is None else [among])]
        conditions += [Among(column, [value]) for column, value in (where or {}).items()]
        conditions += [StartsWith(column, start) for column, start in (starts or {}).items()]
        stored = stored_schema(table)
        for condition in conditions:
            stored.field(condition.column)
        schema = pa.schema([stored.field(column).with_nullable(True) for column in columns or stored.names])
        known, store = self._known(table), self._warehouse.store
        names = [f"tables/{table}/{name}" for name in known.bounds.names(conditions)] if known.bounds else []

        def of_file(name: str) -> list[pa.Table]:
            with store.one_line(name), damage_as_error(store.uri(name)):
                return list(known.footers.matching_rows(name, schema, conditions))

        with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
            of_files = map(of_file, names) if len(names) < _FEW_FILES else pool.map(of_file, names)
            found = [rows for of_one in of_files for rows in of_one]
        return pa.concat_tables(found) if found else schema.empty_table()

    def _known(self, table: str) -> _KnownTable:
        known, warehouse = self._tables.get(table), self._warehouse
        kept = newest_bounds(warehouse, table, known and known.kept)
        entry = "" if kept else newest_log_entry(warehouse, table)
        if known is None or known.kept is not kept or known.entry != entry:
            # A warehouse that was made anew has other files of the same names, so footers are not kept longer.
            delta = None if kept else newest_table(warehouse, table)
            log = None if delta is None else file_bounds(delta)
            known = self._tables[table] = _KnownTable(
                kept, entry, kept.bounds if kept else log, KeptFooters(warehouse.store)
            )
        return known
