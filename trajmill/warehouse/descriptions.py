"""Puts the meaning of tables, views and columns into the DuckDB file, and lists it as a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from itertools import takewhile

import duckdb
import pyarrow as pa

from trajmill.schemas.tables.registry import TABLES, TableDescription, describe_table
from trajmill.warehouse.columns import WRITTEN_AT, stored_schema

_WRITTEN_AT = "UTC time at which the row's file was written; null on rows of an earlier trajmill."
_COLUMN = "-- column "
_COLUMNS_OF = "-- columns of "


@cache
def table_description(table: str) -> TableDescription:
    """The meaning of a table as it is stored. Raises KeyError for an unknown table."""
    described = describe_table(table)
    return TableDescription(described.text, {**described.columns, WRITTEN_AT.name: _WRITTEN_AT})


@cache
def view_query(name: str) -> str:
    """The query of a ready-made view, with the comments above it."""
    return resources.files("trajmill.warehouse").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def view_description(name: str) -> TableDescription:
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
    return TableDescription(" ".join(text), columns)


def comment_on(connection: duckdb.DuckDBPyConnection, view: str, description: TableDescription) -> None:
    """Set the comments of a view and its columns."""
    comments = [f"COMMENT ON VIEW {view} IS {_quoted(description.text)}"]
    for column, meaning in description.columns.items():
        comments.append(f'COMMENT ON COLUMN {view}."{column}" IS {_quoted(meaning)}')
    connection.execute(";".join(comments))


def tables_page(views: Iterable[str]) -> str:
    """The page `docs/tables.md`: every table and every ready-made view with its columns."""
    return "\n".join(_page_lines(views)) + "\n"


def _page_lines(views: Iterable[str]) -> Iterator[str]:
    yield "# Tables and views"
    yield ""
    yield "What `trajmill sql` and `trajmill.duckdb` show; there each of them has its meaning as a comment:"
    yield ""
    yield "```"
    yield "trajmill sql \"SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'trajectories'\""
    yield "```"
    for table in TABLES:
        yield from _section(table, table_description(table), stored_schema(table))
    yield ""
    yield "# Ready-made views"
    for view in views:
        yield from _section(view, view_description(view))


def _section(name: str, description: TableDescription, schema: pa.Schema | None = None) -> Iterator[str]:
    yield from ("", f"## `{name}`", "", description.text)
    if description.columns:
        types = {field.name: _type_name(field) for field in schema or ()}
        yield from (
            "",
            *(("| column | type | meaning |", "|---|---|---|") if types else ("| column | meaning |", "|---|---|")),
        )
        for column, meaning in description.columns.items():
            cells = [f"`{column}`", *([f"`{types[column]}`"] if types else []), meaning.replace("|", r"\|")]
            yield f"| {' | '.join(cells)} |"


def _type_name(field: pa.Field) -> str:
    return str(field.type).replace("item: ", "") + (" or null" if field.nullable else "")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
