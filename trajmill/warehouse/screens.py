"""Screens: the journals of those that workers see, the files of their table, and pixels and trees by id.

A journal has each screen once. A record is a fixed header (lengths of id, tree and image in bytes; width and height in
pixels), then the id, the tree as JSON and the image. A reader may open a journal while its worker is still writing; it
sees only complete records.
"""

from __future__ import annotations

import json
import os
import struct
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, lru_cache
from itertools import accumulate, chain, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.registry import arrow_schema
from trajmill.schemas.tables.screen import ELEMENT, trees_of
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.shards import DataFile, open_file, read_file, replace_shard, rows_per_group, write_shard
from trajmill.warehouse.staging import AppendOnlyFile, JournalParts, stored_journals
from trajmill.warehouse.store.connection import damage_as_error

_DECODED_TREES = 4096
_MOST_IN_FILE = 1 << 32


class WarehouseScreens:
    """The committed screens by id; a `ScreenReader`. An id is known if `id in screens`.

    Memory holds only ids, sizes, and the trees (as Arrow) of files that were used; images are read from disk each time.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._files: list[_ScreenFile] = []
        self._places: dict[str, int] = {}
        self.elements: Callable[[str], tuple[UIElement, ...]] = lru_cache(maxsize=_DECODED_TREES)(self._elements)
        self.refresh()

    def refresh(self) -> None:
        known = {file.path for file in self._files}
        for path in committed_files(self._warehouse, "screens"):
            if path not in known:
                file = _ScreenFile(self._warehouse, path)
                for place, screen_id in enumerate(file.ids(), len(self._files) * _MOST_IN_FILE):
                    self._places.setdefault(screen_id, place)
                self._files.append(file)

    def __contains__(self, screen_id: object) -> bool:
        return screen_id in self._places

    def image(self, screen_id: str) -> bytes:
        [(_, image)] = self.images([screen_id])
        return image

    def images(self, screen_ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Each id once with its encoded image, as they are stored. Raises KeyError, at once, if an id is unknown."""
        wanted: dict[_ScreenFile, dict[int, str]] = defaultdict(dict)
        for screen_id in screen_ids:
            file, row = self._find(screen_id)
            wanted[file][row] = screen_id
        for file, names in wanted.items():
            for row, image in file.images(sorted(names)):
                yield names[row], image

    def trees(self, screen_ids: Sequence[str]) -> pa.ListArray:
        """The accessibility trees in the order of the ids, lists of `ELEMENT`. Raises KeyError for an unknown id."""
        wanted: dict[_ScreenFile, dict[int, int]] = defaultdict(dict)
        for place, screen_id in enumerate(screen_ids):
            file, row = self._find(screen_id)
            wanted[file][place] = row
        if not wanted:
            return pa.array([], pa.list_(ELEMENT))
        parts = [file.trees.take(pa.array(list(rows.values()))).combine_chunks() for file, rows in wanted.items()]
        places = np.fromiter(chain.from_iterable(wanted.values()), np.int64, len(screen_ids))
        return pa.concat_arrays(parts).take(pa.array(np.argsort(places)))

    def size(self, screen_id: str) -> Size:
        file, row = self._find(screen_id)
        return Size(*(int(column[row]) for column in file.sizes))

    def _find(self, screen_id: str) -> tuple[_ScreenFile, int]:
        index, row = divmod(self._places[screen_id], _MOST_IN_FILE)
        return self._files[index], row

    def _elements(self, screen_id: str) -> tuple[UIElement, ...]:
        file, row = self._find(screen_id)
        [tree] = trees_of(file.trees.slice(row, 1))
        return tree


def without_committed(warehouse: Warehouse, files: Sequence[DataFile]) -> Iterator[DataFile]:
    """Rewrite uncommitted shards without the screens that another run has committed since they were written."""
    committed, paths = WarehouseScreens(warehouse), committed_files(warehouse, "screens")
    for file in files:
        path = warehouse.table("screens") / file.path
        if not file.rows or path in paths:
            yield file
            continue
        with open_file(warehouse, path) as shard:
            ids = shard.read(["screen_id"]).column(0).to_pylist()
            new = pa.array([screen_id not in committed for screen_id in ids])
            # Row groups are filtered one by one, because all images together may not fit into memory.
            starts = [0, *_group_ends(shard.metadata)]
            kept = (
                shard.read_row_group(group).filter(new.slice(start, starts[group + 1] - start))
                for group, start in enumerate(starts[:-1])
            )
            yield file if new.true_count == len(new) else replace_shard(warehouse, path, "screens", kept)


class _ScreenFile:
    def __init__(self, warehouse: Warehouse, path: Path) -> None:
        self.path, self._warehouse, self._name = path, warehouse, warehouse.name(path)

    def ids(self) -> Sequence[str]:
        modified = self.path.stat().st_mtime_ns if self.path.exists() else 0
        return _ids_in(self._warehouse, self._name, modified)

    @cached_property
    def sizes(self) -> list[npt.NDArray[np.int32]]:
        return [column.to_numpy() for column in read_file(self._warehouse, self._name, "width", "height").columns]

    @cached_property
    def trees(self) -> pa.ChunkedArray:
        return read_file(self._warehouse, self._name, "elements").column(0)

    @cached_property
    def _whole(self) -> Path:
        # Images are read in no order.
        self._warehouse.store.fetch(self._name)
        return self.path

    def images(self, rows: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        with damage_as_error(self._warehouse.store.uri(self._name)), open_file(self._warehouse, self._whole) as file:
            ends = _group_ends(file.metadata)
            for group, of_group in groupby(rows, key=lambda row: bisect_right(ends, row)):
                first = ends[group - 1] if group else 0
                images = file.read_row_group(group, columns=["image.bytes"]).column(0).combine_chunks().field("bytes")
                yield from ((row, images[row - first].as_py()) for row in of_group)


@lru_cache(maxsize=1024)
def _ids_in(warehouse: Warehouse, name: str, modified: int) -> tuple[str, ...]:
    return tuple(read_file(warehouse, name, "screen_id").column(0).to_pylist())


def _group_ends(footer: pq.FileMetaData) -> list[int]:
    return list(accumulate(footer.row_group(group).num_rows for group in range(footer.num_row_groups)))


_HEADER = struct.Struct(">HIIHH")
_SUFFIX = ".screens"
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
    return at.staging(warehouse) / f"{shard}{_SUFFIX}"


class ScreenJournal(AppendOnlyFile):
    """An append-only file of screens; also reads them by id."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._spans: dict[str, _Span] = {}
        self._complete_bytes = 0
        self._reader: int | None = None
        self.refresh()

    def refresh(self) -> None:
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
        """Draw and store new screens, in one write. Raises TrajmillError, changing nothing, if the disk is full."""
        new = {seen.screen.screen_id: seen for seen in observations if seen.screen.screen_id not in self._spans}
        parts = list[bytes]()
        added = list[tuple[str, int, int, Size]]()
        for screen_id, seen in new.items():
            # Text on a screen may contain lone surrogates, which no UTF-8 column can store.
            tree = _TO_JSON(seen.elements or ()).encode("utf-8", "replace")
            name, image, size = screen_id.encode(), seen.screen.encode(), seen.screen.size
            parts += [_HEADER.pack(len(name), len(tree), len(image), size.width, size.height), name, tree, image]
            added.append((screen_id, len(tree), len(image), size))
        if parts:
            self._append(b"".join(parts), lambda: self._complete_bytes)
        for each in added:
            self._remember(*each)

    def ids(self) -> Collection[str]:
        return self._spans.keys()

    def image(self, screen_id: str) -> bytes:
        span = self._spans[screen_id]
        return self._read(span.image, span.end)

    def tree(self, screen_id: str) -> list[tuple[Any, ...]]:
        """Return the accessibility tree as tuples of plain values, in the order of the column."""
        span = self._spans[screen_id]
        return list(map(tuple, json.loads(self._read(span.tree, span.image))))

    def size(self, screen_id: str) -> Size:
        return self._spans[screen_id].size

    def close(self) -> None:
        super().close()
        if self._reader is not None:
            os.close(self._reader)
            self._reader = None

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

    After a kill, the next process begins at the first screen again; its files take the names of those left behind.
    """

    def __init__(self, warehouse: Warehouse, at: StageRun, origin: Origin, made_by: str) -> None:
        self._warehouse, self._at = warehouse, at
        self._common = origin.common(made_by) | {"schema_version": SCHEMA_VERSION}
        self._committed = WarehouseScreens(warehouse)
        self._journals: dict[Path, ScreenJournal] = {}
        self._written: set[str] = set()
        self._seen = 0
        self._files: list[DataFile] = []

    def write_grown(self) -> None:
        """Write a file if the journals have grown by enough for one; in a bucket, their parts are joined at the end."""
        if self._warehouse.store.is_local:
            size = sum(path.stat().st_size for path in self._journal_paths())
            if size - self._seen >= max(_LEAST_BYTES, self._seen // _LEAST_SHARE):
                self._seen = size
                self.write()

    def write(self) -> list[DataFile]:
        """Write a file of all that no file has yet; returns all files. Raises TrajmillError if the disk is full."""
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
        return stored_journals(self._warehouse, self._at, f"*{_SUFFIX}")

    def _batches(self, holders: Mapping[str, ScreenJournal]) -> Iterator[pa.RecordBatch]:
        ids = iter(sorted(holders))
        while batch := list(islice(ids, rows_per_group("screens"))):
            rows = []
            for screen_id in batch:
                journal, size = holders[screen_id], holders[screen_id].size(screen_id)
                row = {"screen_id": screen_id, "width": size.width, "height": size.height}
                image = {"bytes": journal.image(screen_id), "path": None}
                rows.append({**row, "image": image, "elements": journal.tree(screen_id), **self._common})
            yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema("screens"))
