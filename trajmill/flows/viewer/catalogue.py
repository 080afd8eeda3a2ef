"""The attempts of a warehouse as one narrow table in memory, which filters and counts read in milliseconds."""

from __future__ import annotations

import threading
import time
from importlib import resources
from typing import Any

import duckdb

from trajmill.warehouse.delta_log import newest_log_entry
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.views import OFFLINE

_COMMON = ("run_id", "round")
_COLUMNS = {
    "trajectories": (
        *("trajectory_id", "query_id", "agent", "model_version", "environment", "attempt", "purpose", "guidance_id"),
        *("status", "stop_reason", "failure_class", "failure_message", "answer", "reward", "steps", "wall_ms"),
        *("written_at", *_COMMON),
    ),
    "queries": ("query_id", "platform", "apps", "source", "task", "instruction", "difficulty", "split", *_COMMON),
    "judgements": ("trajectory_id", "correct", "agreed", "judge", "made_by", *_COMMON),
}
_SECONDS_BETWEEN_LOOKS = 1.0
Row = dict[str, Any]


class Catalogue:
    """Answers SQL over the table `attempts`, which follows the commits of the warehouse.

    `attempts` has a row for each trajectory, joined with its query and its judgements (`attempts.sql`).

    Raises:
        BadInputError: a committed file or an entry of a table's log is missing or damaged.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._database = duckdb.connect(config=OFFLINE)
        self._lock = threading.Lock()
        self._entries: dict[str, str] = {}
        self._looked = 0.0
        self._refresh()

    def ask(self, query: str, parameters: list[object]) -> list[Row]:
        """Return the rows of one SELECT, by column; all values are bound as parameters.

        Raises:
            BadInputError: a committed file or an entry of a table's log is missing or damaged.
        """
        self._refresh()
        with self._database.cursor() as cursor:
            rows = cursor.execute(query, parameters).fetchall()
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in rows]

    def _refresh(self) -> None:
        """Read the tables again after a commit, at most once in a while."""
        with self._lock:
            if self._entries and time.monotonic() - self._looked < _SECONDS_BETWEEN_LOOKS:
                return
            entries = {table: newest_log_entry(self._warehouse, table) for table in _COLUMNS}
            if entries != self._entries:
                with self._database.cursor() as cursor:
                    for table, columns in _COLUMNS.items():
                        cursor.register(f"read_{table}", read_table(self._warehouse, table, columns))
                    cursor.execute(resources.files(__package__).joinpath("attempts.sql").read_text(encoding="utf-8"))
                self._entries = entries
            self._looked = time.monotonic()
