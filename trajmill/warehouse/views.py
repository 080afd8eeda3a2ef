"""Writes `trajmill.duckdb`: a view of the committed rows of each table, and the ready-made views.

A changed copy replaces the file, so that a reader that has the old one open can continue. The views name files relative
to the warehouse, so that a copied or moved folder shows its own rows. DuckDB looks for them in the folder that the
variable `warehouse` names, which `connect` sets, and without it in the reader's current folder.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from graphlib import TopologicalSorter
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import duckdb

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.registry import TABLES, arrow_schema
from trajmill.warehouse.atomic import is_disk_full, replacing
from trajmill.warehouse.delta_log import Snapshot, newest_log_entry, one_snapshot, snapshot
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.shards import WRITTEN_AT, stored_schema
from trajmill.warehouse.store.connection import unreadable

OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""DuckDB settings under which it never looks for extensions on the network."""
_FOLDER = "coalesce(getvariable('warehouse') || '/', '')"

_WRITTEN_AT = "UTC time at which the row's file was written; null on rows of an earlier trajmill."
_COLUMN, _COLUMNS_OF = "-- column ", "-- columns of "


class Description(NamedTuple):
    text: str
    columns: Mapping[str, str]
    """In the order of the table."""


def connect(warehouse: Warehouse) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(str(warehouse.database), read_only=True, config=OFFLINE)
    _name_folder(connection, warehouse)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@contextmanager
def fresh_views(warehouse: Warehouse) -> Iterator[Warehouse]:
    """Update the views, and yield a copy: the user may have them open. Raises TrajmillError if the disk is full."""
    with tempfile.TemporaryDirectory() as spare:
        own, is_updated = replace(warehouse, views=Path(spare) / warehouse.database.name), False
        with suppress(OSError):  # A folder that is read-only.
            is_updated = bool(refresh_views(warehouse))
        with suppress(FileNotFoundError):
            shutil.copyfile(warehouse.database, own.database)
        if not is_updated:
            refresh_views(own)
        yield own


def refresh_views(warehouse: Warehouse) -> Path:
    """Update the DuckDB file. Raises TrajmillError if the disk is full, OSError if the folder is read-only."""
    path = warehouse.database
    with replacing(path) as temporary:
        if path.exists():
            shutil.copyfile(path, temporary)
        try:
            _update(warehouse, temporary)
        except duckdb.Error:
            # The file is damaged, or somebody has made something else with the name of a view.
            temporary.unlink()
            try:
                _update(warehouse, temporary)
            except duckdb.Error as error:
                if is_disk_full(error):
                    raise
                raise unreadable(warehouse.address, error) from error
        # A write-ahead log of the old file does not belong to the new one.
        path.with_name(path.name + ".wal").unlink(missing_ok=True)
    return path


def _update(warehouse: Warehouse, path: Path) -> None:
    views = {name: view_query(name) for name in ready_made()}
    described = {table: table_description(table) for table in TABLES}
    schemas = {table: str(stored_schema(table)) for table in TABLES}
    definitions = content_id(schemas, views, described, view_query("macros"), _FOLDER)
    with duckdb.connect(str(path), config=OFFLINE) as connection:
        _name_folder(connection, warehouse)
        connection.execute("BEGIN")
        connection.execute("CREATE SCHEMA IF NOT EXISTS bookkeeping")
        connection.execute("CREATE TABLE IF NOT EXISTS bookkeeping.shown (definitions VARCHAR, committed VARCHAR)")
        shown_by = "SELECT committed FROM bookkeeping.shown WHERE definitions = ?"
        row = connection.execute(shown_by, [definitions]).fetchone()
        known = {table: Snapshot(*values) for table, values in json.loads(row[0]).items()} if row else {}
        committed = dict[str, Snapshot]()
        with one_snapshot():
            for table in TABLES:
                shown = known.get(table)
                # The log of a table is read only if it has a new entry.
                if shown is None or shown.log_entry != newest_log_entry(warehouse, table):
                    shown = snapshot(warehouse, table)
                committed[table] = shown
        for table in TABLES:
            if committed[table] != known.get(table):
                query = _table_query(connection, table, committed[table])
                connection.execute(f"CREATE OR REPLACE VIEW {table} AS {query}")
                comment_on(connection, table, described[table])
        if not known:
            connection.execute(view_query("macros"))
            for name, query in views.items():
                connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
                comment_on(connection, name, view_description(name))
        connection.execute(
            "CREATE OR REPLACE TABLE bookkeeping.shown AS SELECT ? AS definitions, ? AS committed",
            [definitions, json.dumps(committed)],
        )
        connection.execute("COMMIT")


def _table_query(connection: duckdb.DuckDBPyConnection, table: str, committed: Snapshot) -> str:
    stored = committed.columns if committed.files else ()
    known = connection.from_arrow(stored_schema(table).empty_table())
    columns = ", ".join(
        f'"{name}"' if name in stored else f'CAST(NULL AS {kind}) AS "{name}"'
        for name, kind in zip(known.columns, known.types, strict=True)
    )
    if not committed.files:
        return f"SELECT {columns} WHERE false"
    names = ", ".join(quoted(f"tables/{table}/{name}") for name in committed.files)
    paths = f"list_transform([{names}], lambda name: {_FOLDER} || name)"
    # A union of the columns opens every file, so it is taken only if needed.
    union = "true" if committed.mixed else "false"
    return f"SELECT {columns} FROM read_parquet({paths}, union_by_name = {union}, hive_partitioning = false)"


def _name_folder(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse) -> None:
    warehouse.store.register(connection)
    connection.execute(f"SET VARIABLE warehouse = {quoted(warehouse.address)}")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@cache
def table_description(table: str) -> Description:
    """Describe a table by the docstrings of its record. Raises KeyError for an unknown table."""
    record = TABLES[table]
    texts = {name: record.model_fields[name].description or "" for name in arrow_schema(table).names}
    columns = {name: " ".join(text.split()) for name, text in texts.items()} | {WRITTEN_AT.name: _WRITTEN_AT}
    return Description(" ".join((record.__doc__ or "").split()), columns)


@cache
def ready_made() -> tuple[str, ...]:
    """The views in `warehouse/sql/`, each after the views that it reads."""
    folder = resources.files("trajmill.warehouse").joinpath("sql")
    names = {file.name.removesuffix(".sql") for file in folder.iterdir()} - {"macros"}
    words = {name: set(re.findall(r"\w+", re.sub("--.*", "", view_query(name)))) for name in sorted(names)}
    return tuple(TopologicalSorter({name: sorted(words[name] & names - {name}) for name in words}).static_order())


@cache
def view_query(name: str) -> str:
    return resources.files("trajmill.warehouse").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def view_description(name: str) -> Description:
    """The meaning of a ready-made view, from the comment above its query.

    A line `-- column NAME: ...` describes a column; `-- columns of TABLE` takes those of a table.
    """
    text: list[str] = []
    columns: dict[str, str] = {}
    for line in takewhile(lambda line: line.startswith("--"), view_query(name).splitlines()):
        if line.startswith(_COLUMN):
            column, _, meaning = line.removeprefix(_COLUMN).partition(": ")
            columns[column] = meaning
        elif line.startswith(_COLUMNS_OF):
            columns |= table_description(line.removeprefix(_COLUMNS_OF)).columns
        else:
            text.append(line.removeprefix("--").strip())
    return Description(" ".join(text), columns)


def comment_on(connection: duckdb.DuckDBPyConnection, view: str, description: Description) -> None:
    comments = [f"COMMENT ON VIEW {view} IS {quoted(description.text)}"]
    for column, meaning in description.columns.items():
        comments.append(f'COMMENT ON COLUMN {view}."{column}" IS {quoted(meaning)}')
    connection.execute(";".join(comments))
