"""Keeps the figures of a run's judged attempts, with the names of the committed files that they were read from.

Where a file was added to the covered rounds, or is gone (`trajmill compact` joins files), the figures are read anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Final, NamedTuple

from pydantic import ValidationError

from trajmill.schemas.record import Record
from trajmill.stages.curate.history import History, QueryHistory
from trajmill.warehouse.delta_log import FileBounds, delta_table, file_bounds
from trajmill.warehouse.layout import Warehouse

_TABLES: Final = ("judgements", "trajectories")
_ROUNDS_KEPT: Final = 2
"""A round reads the figures before it, and those with its own attempts so far."""


class CoveredFiles:
    """The committed files that figures are read from, as they were at first sight."""

    def __init__(self, warehouse: Warehouse, run_id: str) -> None:
        """Look into no log yet."""
        self._warehouse, self._run_id = warehouse, run_id

    def names(self, before: int) -> tuple[str, ...]:
        """Names of the files that can have rows of rounds before one."""
        where = {"run_id": self._run_id}
        return tuple(
            f"{table}/{name}" for table, bounds in self._bounds.items() for name in bounds.names(range(before), where)
        )

    @cached_property
    def _bounds(self) -> Mapping[str, FileBounds]:
        found = {table: delta_table(self._warehouse, table) for table in _TABLES}
        return {table: file_bounds(delta) for table, delta in found.items() if delta is not None}


class KeptHistory(NamedTuple):
    """Figures, and the round before which all attempts are in them."""

    before: int
    history: History


class _KeptFile(Record):
    files: tuple[str, ...]
    queries: tuple[QueryHistory, ...]


def kept_history(warehouse: Warehouse, run_id: str, before: int, covered: CoveredFiles) -> KeptHistory:
    """The newest kept figures of rounds before one that still cover their files; empty figures without any."""
    for number in sorted(_numbers(warehouse, run_id), reverse=True):
        kept = _read(warehouse, run_id, number) if number <= before else None
        if kept is not None and kept.files == covered.names(number):
            return KeptHistory(number, History({each.query_id: each for each in kept.queries}))
    return KeptHistory(0, History({}))


def keep_history(warehouse: Warehouse, run_id: str, before: int, history: History, covered: CoveredFiles) -> None:
    """Store the figures of all rounds before one, and delete those of long before."""
    if not history.queries:
        return
    kept = _KeptFile(files=covered.names(before), queries=tuple(history.queries.values()))
    text = kept.model_dump_json().encode()
    warehouse.store.put(_name(run_id, before), _hash(text) + b"\n" + text)
    for number in _numbers(warehouse, run_id):
        if number <= before - _ROUNDS_KEPT:
            warehouse.store.delete(_name(run_id, number))


def _read(warehouse: Warehouse, run_id: str, number: int) -> _KeptFile | None:
    """Kept figures; None if there are none, or damaged ones."""
    digest, _, text = (warehouse.store.get(_name(run_id, number)) or b"").partition(b"\n")
    if digest != _hash(text):
        return None
    try:
        return _KeptFile.model_validate_json(text)
    except ValidationError:
        return None


def _numbers(warehouse: Warehouse, run_id: str) -> list[int]:
    names = (file.name.rpartition("/")[2] for file in warehouse.store.files(_folder(run_id)))
    return [int(name[:6]) for name in names if name[:6].isdecimal()]


def _name(run_id: str, before: int) -> str:
    return f"{_folder(run_id)}/{before:06d}.json"


def _folder(run_id: str) -> str:
    return f"runs/{run_id}/history"


def _hash(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()
