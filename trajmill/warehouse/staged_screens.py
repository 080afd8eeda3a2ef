"""Journals of the screens that workers have seen, and the files of table `screens` that are written from them.

A journal has each screen once. A record is a fixed header (lengths of id, tree and image in bytes; width and height in
pixels), then the id, the tree as JSON and the image. A reader may open a journal while its worker is still writing; it
sees only complete records.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.registry import arrow_schema
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import DataFile, write_shard
from trajmill.warehouse.staging import append_whole, open_for_append
from trajmill.warehouse.store.parts import JournalParts, stored_journals

_HEADER = struct.Struct(">HIIHH")
_SUFFIX = ".screens"
_SCREENS_PER_BATCH = 64
_LEAST_BYTES = 64 << 20
"""What is smaller is written in less than a second at the end."""
_LEAST_SHARE = 8
"""And a file has at least this part of what was written before, so that a large stage has some dozen files."""
_TO_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Span(NamedTuple):
    tree: int
    image: int
    end: int
    size: Size


def journal_path(warehouse: Warehouse, at: StageRun, shard: str) -> Path:
    """Path of the journal of screens of a shard."""
    return at.staging(warehouse) / f"{shard}{_SUFFIX}"


class ScreenJournal:
    """An append-only file of screens, written by one process at a time; also reads them by id."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._spans: dict[str, _Span] = {}
        self._complete_bytes = 0
        self._writer: int | None = None
        self._reader: int | None = None
        self.refresh()

    def refresh(self) -> None:
        """Find the records that the writer of the file has completed since."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            length = file.seek(0, os.SEEK_END)
            while self._complete_bytes + _HEADER.size <= length:
                file.seek(self._complete_bytes)
                id_bytes, tree_bytes, image_bytes, width, height = _HEADER.unpack(file.read(_HEADER.size))
                if self._complete_bytes + _HEADER.size + id_bytes + tree_bytes + image_bytes > length:
                    return
                self._remember(file.read(id_bytes).decode(), tree_bytes, image_bytes, Size(width, height))

    def append(self, *observations: Observation) -> None:
        """Draw and store the screens of observations, in one write; those that are stored already are not drawn.

        Raises TrajmillError if the disk is full; the journal is unchanged.
        """
        new = {seen.screen.screen_id: seen for seen in observations if seen.screen.screen_id not in self._spans}
        parts = list[bytes]()
        added = list[tuple[str, int, int, Size]]()
        for screen_id, seen in new.items():
            # Text on a screen may contain lone surrogates, which no UTF-8 column can store.
            tree = _TO_JSON(seen.elements or ()).encode("utf-8", "replace")
            name, image, size = screen_id.encode(), seen.screen.encode(), seen.screen.size
            parts += [_HEADER.pack(len(name), len(tree), len(image), size.width, size.height), name, tree, image]
            added.append((screen_id, len(tree), len(image), size))
        if not parts:
            return
        with disk_full_as_error(self.path):
            if self._writer is None:
                self._writer = open_for_append(self.path, self._complete_bytes)
            append_whole(self._writer, b"".join(parts))
        for each in added:
            self._remember(*each)

    def ids(self) -> Collection[str]:
        """Ids of the screens in the journal, oldest first."""
        return self._spans.keys()

    def image(self, screen_id: str) -> bytes:
        """The encoded image. Raises KeyError for a screen that is not in the journal."""
        span = self._spans[screen_id]
        return self._read(span.image, span.end)

    def tree(self, screen_id: str) -> list[tuple[Any, ...]]:
        """Return the accessibility tree as tuples of plain values, in the order of the column."""
        span = self._spans[screen_id]
        return list(map(tuple, json.loads(self._read(span.tree, span.image))))

    def size(self, screen_id: str) -> Size:
        """Width and height in pixels. Raises KeyError for a screen that is not in the journal."""
        return self._spans[screen_id].size

    def close(self) -> None:
        for descriptor in (self._writer, self._reader):
            if descriptor is not None:
                os.close(descriptor)
        self._writer = self._reader = None

    def _remember(self, screen_id: str, tree_bytes: int, image_bytes: int, size: Size) -> None:
        tree = self._complete_bytes + _HEADER.size + len(screen_id.encode())
        self._complete_bytes = tree + tree_bytes + image_bytes
        self._spans[screen_id] = _Span(tree, tree + tree_bytes, self._complete_bytes, size)

    def _read(self, start: int, end: int) -> bytes:
        if self._reader is None:
            self._reader = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._reader, end - start, start)


@contextmanager
def stored_screen_journal(warehouse: Warehouse, at: StageRun, shard: str) -> Iterator[ScreenJournal]:
    """The journal of a shard without another journal: it is stored at the end, also where there is a bucket."""
    path = journal_path(warehouse, at, shard)
    parts = JournalParts(warehouse, at, [path])
    with closing(ScreenJournal(path)) as journal:
        yield journal
    parts.publish(parts.sizes())


class NewScreens:
    """The screens in the journals of a stage that are not committed yet, each of which it writes once.

    A process that was killed leaves the journals, and files that nobody commits: the next one begins at the first
    screen again, and what it writes takes the names of those files.
    """

    def __init__(self, warehouse: Warehouse, at: StageRun, origin: Origin, made_by: str) -> None:
        """Read no journal yet; `made_by` is the environment that drew the screens, for the common columns."""
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
            size = sum(path.stat().st_size for path in self._journal_paths())
            if size - self._seen >= max(_LEAST_BYTES, self._seen // _LEAST_SHARE):
                self._seen = size
                self.write()

    def write(self) -> list[DataFile]:
        """Write a file of all that no file has yet; returns all files, the last one without rows if there was nothing.

        Raises TrajmillError if the disk is full.
        """
        for path in self._journal_paths():
            if path in self._journals:
                self._journals[path].refresh()
            else:
                self._journals[path] = ScreenJournal(path)
        holders = {
            screen_id: journal
            for journal in self._journals.values()
            for screen_id in journal.ids()
            if screen_id not in self._written and screen_id not in self._committed
        }
        try:
            shard = f"{len(self._files):05d}"
            self._files.append(write_shard(self._warehouse, "screens", self._at, self._batches(holders), shard))
        finally:
            for journal in self._journals.values():
                journal.close()
        self._written.update(holders)
        return self._files

    def _journal_paths(self) -> list[Path]:
        """Paths of the journals of the stage, including those of an earlier division into shards."""
        return stored_journals(self._warehouse, self._at, f"*{_SUFFIX}")

    def _batches(self, holders: Mapping[str, ScreenJournal]) -> Iterator[pa.RecordBatch]:
        ids = iter(sorted(holders))
        while batch := list(islice(ids, _SCREENS_PER_BATCH)):
            rows = []
            for screen_id in batch:
                journal, size = holders[screen_id], holders[screen_id].size(screen_id)
                row = {"screen_id": screen_id, "width": size.width, "height": size.height}
                image = {"bytes": journal.image(screen_id), "path": None}
                rows.append({**row, "image": image, "elements": journal.tree(screen_id), **self._common})
            yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema("screens"))
