"""A prompt for SQL: statements over several lines, names that complete, and a history that lasts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from trajmill.schemas.errors import TrajmillError
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.sql import Format, QueryLimits, answer_sql, format_rows

_MOST_ROWS: Final = 1000
_HELP: Final = """\
A statement ends with ; and may have several lines. Tab completes the names of tables and views.
.tables        tables and views
.columns NAME  the columns of one
.quit          leave; so does Ctrl-D. Ctrl-C drops what was typed."""


def run_prompt(warehouse: Warehouse, form: Format, limits: QueryLimits) -> None:
    """Answer statements until the end of standard input. One that fails is one line, and ends nothing."""
    typed = sys.stdin.isatty()

    def names() -> list[str]:
        found: list[str] = answer_sql(warehouse, "SHOW TABLES").rows.column(0).to_pylist()
        return found

    def answer(statement: str) -> str:
        match statement.split():
            case [".tables"]:
                return "\n".join(names())
            case [".columns", name]:
                quoted = name.replace('"', '""')
                statement = f'SELECT column_name, column_type FROM (DESCRIBE "{quoted}")'
            case [command, *_] if command.startswith("."):
                return _HELP
        found = answer_sql(warehouse, statement, limits._replace(rows=_MOST_ROWS))
        rows = format_rows(found.rows, form).rstrip("\n")
        return rows if found.is_whole else f"{rows}\nonly the first {_MOST_ROWS:,}; `trajmill sql QUERY` prints all"

    if typed:
        print(f"{warehouse.root}: committed rows, read-only; .help lists the commands")
    with _remembered(names()) if typed else nullcontext():
        for statement in _statements(typed):
            if statement == ".quit":
                return
            try:
                print(answer(statement), flush=True)
            except TrajmillError as error:
                print(error, file=sys.stderr, flush=True)
            except KeyboardInterrupt:
                print("stopped", file=sys.stderr, flush=True)


def _statements(typed: bool) -> Iterator[str]:
    """Yield the statements of standard input; the last one needs no semicolon."""
    lines: list[str] = []
    while True:
        try:
            lines.append(input(("     ...> " if lines else "trajmill> ") if typed else ""))
        except KeyboardInterrupt:
            print()
            lines = []
        except EOFError:
            break
        statement = "\n".join(lines).strip()
        if is_whole := statement.endswith(";") or statement.startswith("."):
            yield statement.rstrip(";")
        if is_whole or not statement:
            lines = []
    if typed:
        print()
    elif lines:
        yield "\n".join(lines)


@contextmanager
def _remembered(names: list[str]) -> Iterator[None]:
    """Complete names with Tab, and keep the history in the user's state folder, where that can be written."""
    try:
        import readline
    except ImportError:  # Python may be built without it.
        yield
        return
    readline.set_completer(lambda text, place: [*(name for name in names if name.startswith(text)), None][place])
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(2000)
    named = os.environ.get("XDG_STATE_HOME", "")
    base = Path(named) if named.startswith("/") else Path.home() / ".local" / "state"
    history = base / "trajmill" / "sql_history"
    with suppress(OSError):
        readline.read_history_file(history)
    try:
        yield
    finally:
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)
