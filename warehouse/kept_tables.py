"""Keeps the Delta tables that this process has opened, and reads only what was added to their logs since.

Opening a table is some requests to a bucket for each entry since the last checkpoint.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.checks.log_entries import LogEntry
from trajmill.warehouse.store.base import FileStore

_MOST_BEHIND = 10
"""New entries that are read one by one; there is a checkpoint in more of them."""


class KeptTable:
    """A Delta table at its newest version, as far as this process knows."""

    def __init__(self) -> None:
        """Nothing is kept."""
        self._entries: Sequence[LogEntry] = ()
        self._table: DeltaTable | None = None
        self._lock = threading.Lock()

    def at(self, entries: Sequence[LogEntry], opened: Callable[[], DeltaTable]) -> DeltaTable:
        """The table whose log has such entries, of which none is damaged; callers share the object.

        Args:
            entries: the entries of the log, oldest first.
            opened: opens the table anew, which is done where what is kept is of another log or long ago.
        """
        with self._lock:
            if self._table is None or not self._follows(self._table, entries):
                self._table = opened()
            self._entries = entries
            return self._table

    def keep(self, table: DeltaTable, entries: Sequence[LogEntry]) -> None:
        """Keep a table that this process has committed to; its log has such entries."""
        with self._lock:
            self._entries, self._table = entries, table

    def _follows(self, table: DeltaTable, entries: Sequence[LogEntry]) -> bool:
        """Read the entries that are new; False if that does not give the table with such entries."""
        known = len(self._entries)
        if entries[:known] != self._entries or len(entries) > known + _MOST_BEHIND:
            return False
        if len(entries) > known:
            try:
                table.update_incremental()
            except (DeltaError, OSError):
                # Whoever opens it says what is wrong.
                return False
        return int(table.version()) >= len(entries) - 1


@lru_cache(maxsize=4 * len(TABLES))
def kept_table(store: FileStore, table: str) -> KeptTable:
    """What this process keeps of a table."""
    return KeptTable()
