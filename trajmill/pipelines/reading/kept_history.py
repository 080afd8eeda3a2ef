"""Keeps the figures of a run's judged attempts, with the names of the committed files that they were read from.

Where a file was added to the covered rounds, or is gone (`trajmill compact` joins files), the figures are read anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from pydantic import ValidationError

from trajmill.pipelines.reading.kept_files import KeptFiles
from trajmill.schemas.record import Record
from trajmill.stages.curate.history import History, QueryHistory
from trajmill.warehouse.bounds.conditions import origin_conditions
from trajmill.warehouse.bounds.files import FileBounds
from trajmill.warehouse.delta_log import file_bounds, newest_table
from trajmill.warehouse.layout import Warehouse

_TABLES: Final = ("judgements", "trajectories")
_NAME: Final = "history"


class CoveredFiles:
    """The committed files that figures are read from, as they were at first sight."""

    def __init__(self, warehouse: Warehouse, run_id: str, tables: Collection[str] = _TABLES) -> None:
        """Look into no log yet."""
        self._warehouse, self._run_id, self._tables = warehouse, run_id, tables

    def names(self, before: int) -> tuple[str, ...]:
        """Names of the files that can have rows of rounds before one."""
        of_run = origin_conditions(range(before), self._run_id)
        return tuple(f"{table}/{name}" for table, bounds in self._bounds.items() for name in bounds.names(of_run))

    @cached_property
    def _bounds(self) -> Mapping[str, FileBounds]:
        found = {table: newest_table(self._warehouse, table) for table in self._tables}
        return {table: file_bounds(delta) for table, delta in found.items() if delta is not None}


class KeptHistory(NamedTuple):
    """Figures, and the round before which all attempts are in them."""

    before: int
    history: History


class _KeptFigures(Record):
    files: tuple[str, ...]
    queries: tuple[QueryHistory, ...]


def kept_history(warehouse: Warehouse, run_id: str, before: int, covered: CoveredFiles) -> KeptHistory:
    """The newest kept figures of rounds before one that still cover their files; empty figures without any."""
    for file in KeptFiles(warehouse, run_id, _NAME).newest_first(before):
        kept = _read(file.contents)
        if kept is not None and kept.files == covered.names(file.before):
            return KeptHistory(file.before, History({each.query_id: each for each in kept.queries}))
    return KeptHistory(0, History({}))


def keep_history(warehouse: Warehouse, run_id: str, before: int, history: History, covered: CoveredFiles) -> None:
    """Store the figures of all rounds before one, and delete those of long before."""
    if history.queries:
        kept = _KeptFigures(files=covered.names(before), queries=tuple(history.queries.values()))
        KeptFiles(warehouse, run_id, _NAME).keep(before, kept.model_dump_json().encode())


def _read(contents: bytes) -> _KeptFigures | None:
    """Kept figures; None if an earlier trajmill kept them in another form."""
    try:
        return _KeptFigures.model_validate_json(contents)
    except ValidationError:
        return None
