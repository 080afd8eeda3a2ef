"""Writes recordings as rows, shard by shard; memory holds one shard of rows, the screens of one recording, and ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Origin, Row
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.text import storable
from trajmill.stages.importing.base import BadRecording, BadRecordingError, ReadRecording, Recording
from trajmill.stages.importing.rows import HeldOut, ImportedRows, rows_of
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import DataFile, write_tables
from trajmill.warehouse.staged_screens import ScreenJournal, stored_screen_journal, write_screens

STAGE = "import"
"""Stage on the failures of recordings that cannot be read."""
_IN_SHARD = 200
"""Recordings in a shard."""


@dataclass
class ImportCounts:
    """What became of the recordings of a folder."""

    trajectories: int = 0
    steps: int = 0
    known: int = 0
    """Recordings that were imported before, or stand in the folder twice."""
    bad: list[BadRecording] = field(default_factory=list)
    """Recordings that cannot be used, each with its reason."""


@dataclass
class _Importing:
    """One import so far."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    layout: str
    held_out: HeldOut
    known: set[str]
    """Ids of the trajectories and queries that are stored."""
    counts: ImportCounts = field(default_factory=ImportCounts)
    written: dict[str, list[DataFile]] = field(default_factory=dict)
    _rows: dict[str, list[Row]] = field(default_factory=dict)
    _waiting: int = 0
    _shards: int = 0

    def add(self, found: Recording | BadRecording, screens: ScreenJournal, committed: WarehouseScreens) -> None:
        """Take one recording; a full shard is written."""
        rows = self._usable(found)
        if rows is not None:
            for observation in rows.observations:
                if observation.screen.screen_id not in committed:
                    screens.append(observation)
            self._keep(rows)
        self._waiting += 1
        if self._waiting >= _IN_SHARD:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait as one shard."""
        files = write_tables(self.warehouse, self.at, self._rows, f"{self._shards:05d}")
        for table, written in files.items():
            self.written.setdefault(table, []).extend(written)
        self._rows, self._waiting, self._shards = {}, 0, self._shards + 1

    def _usable(self, found: Recording | BadRecording) -> ImportedRows | None:
        """The rows of a recording; None if it is known, or cannot be used."""
        if isinstance(found, Recording):
            try:
                rows = rows_of(found, self.layout, self.origin)
            except BadRecordingError as error:
                found = BadRecording(found.name, str(error))
            else:
                reason = self.held_out.reason(rows.query)
                if rows.trajectory.trajectory_id in self.known:
                    self.counts.known += 1
                    return None
                if not reason:
                    return rows
                found = BadRecording(found.name, reason)
        self.counts.bad.append(found)
        self._rows.setdefault("failures", []).append(self._failure(found))
        return None

    def _keep(self, rows: ImportedRows) -> None:
        self.counts.trajectories += 1
        self.counts.steps += len(rows.steps)
        if rows.query.query_id not in self.known:
            self._rows.setdefault("queries", []).append(rows.query)
        self.known |= {rows.query.query_id, rows.trajectory.trajectory_id}
        self._rows.setdefault("trajectories", []).append(rows.trajectory)
        self._rows.setdefault("steps", []).extend(rows.steps)

    def _failure(self, bad: BadRecording) -> Failure:
        return Failure(
            stage=STAGE,
            input_id=storable(bad.name),
            failure_class=FailureClass.TASK,
            message=storable(bad.reason),
            attempts=1,
            **self.origin.common(made_by=f"import.{self.layout}/1"),
        )


def write_recordings(
    warehouse: Warehouse,
    at: StageRun,
    origin: Origin,
    layout: str,
    found: Iterable[ReadRecording],
    held_out: HeldOut,
    known: set[str],
    advance: Callable[[int], None],
) -> tuple[WrittenFiles, ImportCounts]:
    """Write the rows of recordings; the files are to be committed.

    Args:
        warehouse: where to write.
        at: the stage; doing it again writes the same files.
        origin: common columns of the rows.
        layout: kind of the layout.
        found: the recordings.
        held_out: what must not be learned from.
        known: ids of stored trajectories and queries, which are not written again.
        advance: is told how many bytes of the listing files are done.
    """
    importing = _Importing(warehouse, at, origin, layout, held_out, known)
    committed = WarehouseScreens(warehouse)
    with stored_screen_journal(warehouse, at, STAGE) as screens:
        for each in found:
            importing.add(each.recording, screens, committed)
            advance(each.size)
    importing.flush()
    pictures = write_screens(warehouse, at, origin, made_by=f"import.{layout}/1")
    return WrittenFiles({**importing.written, "screens": [pictures]}), importing.counts
