"""Answers read-only SQL over the committed rows, and formats the answers."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
import tempfile
import threading
from functools import lru_cache
from typing import Literal, NamedTuple

import duckdb
import pyarrow as pa

from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import tuples
from trajmill.warehouse.store.connection import unreadable
from trajmill.warehouse.upkeep import damaged_table
from trajmill.warehouse.views import connect, fresh_views, quoted, ready_made, view_query

Format = Literal["table", "csv", "json"]

_READS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
_WIDEST_CELL = 60
_ROWS_AT_ONCE = 2048
_SPILLED_AT_MOST = 4
"""Disk space of a query, as a multiple of its memory."""


class QueryLimits(NamedTuple):
    seconds: float = 600.0
    megabytes: int = 4096
    rows: int | None = None
    """Rows after which the answer is cut off; None for all."""


class SqlAnswer(NamedTuple):
    rows: pa.Table
    is_whole: bool
    """Whether there are no further rows."""


def run_sql(warehouse: Warehouse, query: str) -> pa.Table:
    """Return all rows of the answer to one SELECT over the tables and views of a warehouse; see `answer_sql`."""
    return answer_sql(warehouse, query).rows


def answer_sql(warehouse: Warehouse, query: str, limits: QueryLimits = QueryLimits()) -> SqlAnswer:
    """Answer one SELECT over the tables and views of a warehouse.

    The query can read only the files of the warehouse, and writes nothing but temporary files of its own. Raises
    BadInputError if it is wrong, does more than read, or reaches a limit, or a committed file is missing or damaged.
    """
    check_files(warehouse, query)
    with tempfile.TemporaryDirectory() as spare, fresh_views(warehouse) as shown, connect(shown) as connection:
        connection.execute(f"SET memory_limit = '{limits.megabytes}MiB'")
        connection.execute(f"SET temp_directory = {quoted(spare)}")
        connection.execute(f"SET max_temp_directory_size = '{limits.megabytes * _SPILLED_AT_MOST}MiB'")
        connection.execute(f"SET allowed_directories = [{quoted(warehouse.address)}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        timer = threading.Timer(limits.seconds, connection.interrupt)
        timer.daemon = True
        try:
            statements = connection.extract_statements(query)
            if len(statements) != 1:
                raise BadInputError(f"query: holds {len(statements)} statements; give exactly one SELECT")
            if statements[0].type not in _READS:
                kind = statements[0].type.name
                raise BadInputError(f"query: {kind} is refused, the warehouse is read-only here; give a SELECT")
            timer.start()
            return _answer(connection, query, limits)
        except duckdb.InterruptException as error:
            raise BadInputError(
                f"query: it took longer than {limits.seconds:g} s, and was stopped; "
                "read less (WHERE round = ..., LIMIT), or allow more with --seconds"
            ) from error
        except duckdb.OutOfMemoryException as error:
            raise BadInputError(_too_large(limits)) from error
        except duckdb.Error as error:
            raise _one_line(warehouse, error) from error
        finally:
            timer.cancel()


def check_files(warehouse: Warehouse, query: str) -> None:
    """Raise BadInputError if a file is damaged that a query may read in a folder: DuckDB ignores checksums of pages."""
    words = set(re.findall(r"\w+", query.lower()))
    for view in reversed(ready_made()):
        words |= set(re.findall(r"\w+", view_query(view))) if view in words else set()
    for table in words & TABLES.keys() if warehouse.store.is_local else ():
        if line := _damage(warehouse, table, hash(tuple(warehouse.store.files(f"tables/{table}")))):
            raise BadInputError(line)


@lru_cache(maxsize=256)
def _damage(warehouse: Warehouse, table: str, state: int) -> str:
    """The first line about a damaged file of a table, or nothing; `state` stands for sizes and times of its files."""
    return next(damaged_table(warehouse, table), "")


def _answer(connection: duckdb.DuckDBPyConnection, query: str, limits: QueryLimits) -> SqlAnswer:
    answer = connection.sql(query)
    if answer is None:
        return SqlAnswer(pa.table({}), True)
    reader = answer.select("*").to_arrow_reader(_ROWS_AT_ONCE)  # which numbers columns with equal names
    batches, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in reader:
        batches.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if limits.rows is not None and rows > limits.rows:
            return SqlAnswer(pa.Table.from_batches(batches).slice(0, limits.rows), False)
        if size > limits.megabytes << 20:
            raise BadInputError(_too_large(limits))
    return SqlAnswer(pa.Table.from_batches(batches, reader.schema), True)


def _too_large(limits: QueryLimits) -> str:
    return (
        f"query: it needs more than {limits.megabytes:,} MB of memory; name the columns that you need (images are "
        "large), add LIMIT, or allow more with --memory"
    )


def format_rows(rows: pa.Table, form: Format) -> str:
    """Rows as text. In `json` and `csv` nested values are JSON, and bytes base64; `table` cuts long cells."""
    match form:
        case "json":
            lines = [json.dumps(_plain(row), ensure_ascii=False) for row in rows.to_pylist()]
            return "[" + ",\n ".join(lines) + "]\n"
        case "csv":
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(rows.column_names)
            writer.writerows([_csv_cell(value) for value in row] for row in tuples(rows))
            return text.getvalue()
        case "table" if rows.column_names == ["explain_key", "explain_value"]:
            return "".join(rows["explain_value"].to_pylist())
        case "table":
            return _aligned(rows)


def _one_line(warehouse: Warehouse, error: duckdb.Error) -> TrajmillError:
    if warehouse.store.uri("tables") in str(error):
        # Only the views name these files; the user's query is not at fault.
        return unreadable(warehouse.address, error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and set(line.strip()) != {"^"}]
    hint = "SHOW TABLES lists what there is" if isinstance(error, duckdb.CatalogException) else "correct the query"
    return BadInputError(f"query: {' '.join(lines)}; {hint}")


def _plain(value: object) -> object:
    match value:
        case dict():
            return {str(key): _plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _csv_cell(value: object) -> object:
    plain = _plain(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, dict | list | bool) else plain


def _aligned(rows: pa.Table) -> str:
    numeric = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in rows.schema.types]
    lines = [rows.column_names, *([_cell(value) for value in row] for row in tuples(rows))]
    widths = [max(len(line[place]) for line in lines) for place in range(rows.num_columns)]
    padded = (
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )
    return "\n".join(padded) + f"\n({rows.num_rows} {'row' if rows.num_rows == 1 else 'rows'})\n"


def _cell(value: object) -> str:
    match value:
        case None:
            text = ""
        case bytes():
            text = f"<{len(value)} bytes>"
        case float():
            text = f"{value:.4g}" if abs(value) < 1_000 else f"{value:.1f}"
        case dict() | list() | bool():
            text = json.dumps(_plain(value), ensure_ascii=False)
        case _:
            text = str(value)
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return shown if len(shown) <= _WIDEST_CELL else shown[: _WIDEST_CELL - 1] + "…"
