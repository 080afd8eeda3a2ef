"""`trajmill.duckdb`: a view per table over exactly the committed files, and the views that people ask for first.

The file is made anew each time, next to the old one, and then takes its place: whoever has the old one open keeps
reading it. The views name absolute paths, since DuckDB resolves relative ones against the reader's own folder.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import duckdb
import pyarrow as pa

from schemas.tables import TABLES, arrow_schema
from warehouse.atomic import replacing
from warehouse.delta_log import delta_table, logged_names
from warehouse.layout import Warehouse

OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""DuckDB settings under which it never looks for extensions on the network."""

READY_MADE = (
    "success_by_round",
    "funnel",
    "cost_by_stage",
    "judge_by_round",
    "guidance_lift",
    "latest_judgements",
    "disagreements",
    "failures_by_class",
    "steps_per_success",
    "model_versions",
)
"""Views in `warehouse/sql/`, each after the views that it reads."""

_SCALARS = {
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
}
_WILSON = """
CREATE MACRO wilson_low(successes, n, z := 1.959964) AS greatest(
    0, (successes + z * z / 2 - z * sqrt(successes * (n - successes) / n + z * z / 4)) / (n + z * z)
);
CREATE MACRO wilson_high(successes, n, z := 1.959964) AS least(
    1, (successes + z * z / 2 + z * sqrt(successes * (n - successes) / n + z * z / 4)) / (n + z * z)
);
"""


def refresh_views(warehouse: Warehouse) -> Path:
    """Bring the warehouse's DuckDB file up to date with what is committed, and return its path.

    Raises:
        TrajmillError: the disk is full.
        OSError: the folder cannot be written to.
    """
    write_views(warehouse, warehouse.database)
    return warehouse.database


def write_views(warehouse: Warehouse, path: Path) -> None:
    """Write a DuckDB file with nothing but views over the committed rows."""
    with replacing(path) as temporary:
        with duckdb.connect(str(temporary), config=OFFLINE) as connection:
            connection.execute("BEGIN")
            for table in TABLES:
                connection.execute(f"CREATE VIEW {table} AS {_table_query(warehouse, table)}")
            connection.execute(_WILSON)
            for name in READY_MADE:
                query = resources.files("warehouse").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
                connection.execute(f"CREATE VIEW {name} AS {query}")
            connection.execute("COMMIT")
        # A write-ahead log that somebody left beside the old file does not belong to the new one.
        path.with_name(path.name + ".wal").unlink(missing_ok=True)


def _table_query(warehouse: Warehouse, table: str) -> str:
    """A query for the committed rows of a table that has all of its columns, whatever the files have."""
    delta = delta_table(warehouse, table)
    names = [] if delta is None else logged_names(delta)
    stored = set() if delta is None or not names else {field.name for field in delta.schema().fields}
    columns = ", ".join(
        f'"{field.name}"' if field.name in stored else f'CAST(NULL AS {duckdb_type(field.type)}) AS "{field.name}"'
        for field in arrow_schema(table)
    )
    if not names:
        return f"SELECT {columns} WHERE false"
    folder = warehouse.table(table)
    paths = ", ".join(quoted(str(folder / name)) for name in names)
    return f"SELECT {columns} FROM read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"


def duckdb_type(kind: pa.DataType) -> str:
    """The DuckDB type that an Arrow type of `schemas` is read as. Raises KeyError for a type that no table has."""
    if pa.types.is_list(kind):
        return f"{duckdb_type(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return "STRUCT(" + ", ".join(f'"{field.name}" {duckdb_type(field.type)}' for field in kind) + ")"
    return _SCALARS[kind]


def quoted(text: str) -> str:
    """The text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
