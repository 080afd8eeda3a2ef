"""Writes the screens of a stage's journals into the table, some of them while the journals still grow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.registry import arrow_schema
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import DataFile, write_shard
from trajmill.warehouse.staged.screen_journal import ScreenJournal, StagedScreen, journal_paths

_SCREENS_PER_BATCH = 64
_LEAST_BYTES = 64 << 20
"""What is smaller is written in less than a second at the end."""
_LEAST_SHARE = 8
"""And a file has at least this part of what was written before, so that a large stage has some dozen files."""


def write_screens(warehouse: Warehouse, at: StageRun, origin: Origin, made_by: str) -> DataFile:
    """Write the stage's only shard of `screens`: the screens in its journals that are not committed yet, sorted by id.

    Args:
        warehouse: where to write.
        at: the stage run of the journals; a screen may be in several of them.
        origin: common columns of the rows.
        made_by: the environment that drew the screens.
    """
    [file] = NewScreens(warehouse, at, origin, made_by).write()
    return file


class NewScreens:
    """The screens in the journals of a stage that are not committed yet, each of which it writes once.

    A process that was killed leaves the journals, and files that nobody commits: the next one begins at the first
    screen again, and what it writes takes the names of those files.
    """

    def __init__(self, warehouse: Warehouse, at: StageRun, origin: Origin, made_by: str) -> None:
        """Read no journal yet; the arguments are those of `write_screens`."""
        self._warehouse, self._at = warehouse, at
        self._common = origin.common(made_by) | {"schema_version": SCHEMA_VERSION}
        self._committed = WarehouseScreens(warehouse)
        self._journals: dict[Path, ScreenJournal] = {}
        self._written: set[str] = set()
        self._seen = 0
        self._files: list[DataFile] = []

    def write_grown(self) -> None:
        """Write a file if the journals have grown by enough for one.

        Not where there is a bucket: journals are parts there, which are joined when no more of them come.
        """
        if self._warehouse.store.is_local:
            size = sum(path.stat().st_size for path in journal_paths(self._warehouse, self._at))
            if size - self._seen >= max(_LEAST_BYTES, self._seen // _LEAST_SHARE):
                self._seen = size
                self.write()

    def write(self) -> list[DataFile]:
        """Write a file of all that no file has yet; returns all files, the last one without rows if there was nothing.

        Raises:
            TrajmillError: the disk is full.
        """
        journals = self._grown_journals()
        holders = {
            screen_id: journal
            for journal in journals
            for screen_id in journal.ids()
            if screen_id not in self._written and screen_id not in self._committed
        }
        staged = (holders[screen_id].screen(screen_id) for screen_id in sorted(holders))
        try:
            shard = f"{len(self._files):05d}"
            self._files.append(write_shard(self._warehouse, "screens", self._at, self._batches(staged), shard))
        finally:
            for journal in journals:
                journal.close()
        self._written.update(holders)
        return self._files

    def _grown_journals(self) -> list[ScreenJournal]:
        for path in journal_paths(self._warehouse, self._at):
            if path in self._journals:
                self._journals[path].refresh()
            else:
                self._journals[path] = ScreenJournal(path)
        return list(self._journals.values())

    def _batches(self, screens: Iterator[StagedScreen]) -> Iterator[pa.RecordBatch]:
        while batch := list(islice(screens, _SCREENS_PER_BATCH)):
            rows = [
                {
                    "screen_id": screen.screen_id,
                    "width": screen.size.width,
                    "height": screen.size.height,
                    "image": {"bytes": screen.image, "path": None},
                    "elements": screen.elements,
                    **self._common,
                }
                for screen in batch
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema("screens"))
