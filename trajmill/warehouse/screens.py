"""Reads the pixels and trees of committed screens by id."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.screen import ELEMENT
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.shards import DataFile, replace_shard
from trajmill.warehouse.store.base import FileStore
from trajmill.warehouse.store.connection import damage_as_error

_DECODED_TREES = 4096


class WarehouseScreens:
    """The committed screens by id; a `ScreenReader`. An id is known if `id in screens`.

    Memory holds only ids, sizes, and the trees (as Arrow) of files that were used; images are read from disk each time.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._files: list[_ScreenFile] = []
        self._starts: list[int] = []
        self._rows: dict[str, int] = {}
        self._decoded = lru_cache(maxsize=_DECODED_TREES)(self._decode)
        self.refresh()

    def refresh(self) -> None:
        """Find the screens that were committed since."""
        known = {file.path for file in self._files}
        for path in committed_files(self._warehouse, "screens"):
            if path not in known:
                file = _ScreenFile(self._warehouse, path)
                start = self._starts[-1] + self._files[-1].rows if self._files else 0
                for row, screen_id in enumerate(file.ids(), start):
                    self._rows.setdefault(screen_id, row)
                self._files.append(file)
                self._starts.append(start)

    @property
    def files(self) -> Collection[Path]:
        """The committed files."""
        return [file.path for file in self._files]

    def __contains__(self, screen_id: object) -> bool:
        return screen_id in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def image(self, screen_id: str) -> bytes:
        """The encoded image. Raises KeyError for an unknown id."""
        [(_, image)] = self.images([screen_id])
        return image

    def images(self, screen_ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Each id once with its encoded image, as they are stored; each row group is read once, one after the other.

        Raises:
            KeyError: an id is unknown; no image is given then.
        """
        wanted: dict[_ScreenFile, dict[int, str]] = defaultdict(dict)
        for screen_id in screen_ids:
            file, row = self._find(screen_id)
            wanted[file][row] = screen_id
        for file, names in wanted.items():
            for row, image in file.images(sorted(names)):
                yield names[row], image

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        """The accessibility tree, empty where there was none. Raises KeyError for an unknown id."""
        return self._decoded(screen_id)

    def trees(self, screen_ids: Sequence[str]) -> pa.ListArray:
        """The accessibility trees in the order of the ids, lists of `ELEMENT`. Raises KeyError for an unknown id."""
        wanted: dict[_ScreenFile, dict[int, int]] = defaultdict(dict)
        for place, screen_id in enumerate(screen_ids):
            file, row = self._find(screen_id)
            wanted[file][place] = row
        if not wanted:
            return pa.array([], pa.list_(ELEMENT))
        by_file = pa.concat_arrays([file.trees(list(rows.values())) for file, rows in wanted.items()])
        places = np.fromiter(chain.from_iterable(wanted.values()), np.int64, len(screen_ids))
        return by_file.take(pa.array(np.argsort(places)))

    def size(self, screen_id: str) -> Size:
        """Width and height in pixels. Raises KeyError for an unknown id."""
        file, row = self._find(screen_id)
        return file.size(row)

    def _find(self, screen_id: str) -> tuple[_ScreenFile, int]:
        row = self._rows[screen_id]
        index = bisect_right(self._starts, row) - 1
        return self._files[index], row - self._starts[index]

    def _decode(self, screen_id: str) -> tuple[UIElement, ...]:
        file, row = self._find(screen_id)
        return file.elements(row)


def without_committed(warehouse: Warehouse, files: Sequence[DataFile]) -> list[DataFile]:
    """Rewrite uncommitted shards without the screens that another run has committed since they were written."""
    committed = WarehouseScreens(warehouse)
    return [_without(warehouse, file, committed) for file in files]


def _without(warehouse: Warehouse, file: DataFile, committed: WarehouseScreens) -> DataFile:
    path = warehouse.table("screens") / file.path
    if not file.rows or path in committed.files:
        return file
    ids = pq.read_table(path, columns=["screen_id"], partitioning=None).column(0)
    new = pa.array([screen_id not in committed for screen_id in ids.to_pylist()])
    if new.true_count == len(new):
        return file
    with pq.ParquetFile(path) as shard:
        # Row groups are filtered one by one, because all images together may not fit into memory.
        starts = [0, *_group_ends(shard.metadata)]
        kept = (
            shard.read_row_group(group).filter(new.slice(start, starts[group + 1] - start))
            for group, start in enumerate(starts[:-1])
        )
        return replace_shard(warehouse, path, "screens", kept)


class _ScreenFile:
    """One committed file of screens."""

    def __init__(self, warehouse: Warehouse, path: Path) -> None:
        self.path = path
        self._warehouse, self._store, self._name = warehouse, warehouse.store, warehouse.name(path)
        self._where = self._store.uri(self._name)
        self._fetched = False
        with self._store.one_line(self._name), damage_as_error(self._where):
            self.rows = self._footer().num_rows
        self._sizes: list[npt.NDArray[np.int32]] | None = None
        self._trees: pa.ChunkedArray | None = None

    def ids(self) -> Sequence[str]:
        with damage_as_error(self._where):
            return _ids_in(self._warehouse, self._name, self.path.stat().st_mtime_ns if self.path.exists() else 0)

    def size(self, row: int) -> Size:
        if self._sizes is None:
            self._sizes = [column.to_numpy() for column in self._read("width", "height").columns]
        return Size(*(int(column[row]) for column in self._sizes))

    def elements(self, row: int) -> tuple[UIElement, ...]:
        return tuple(
            UIElement(**element | {"bounds": Box(*element["bounds"]), "states": tuple(element["states"])})
            for element in self._all_trees()[row].as_py()
        )

    def trees(self, rows: Sequence[int]) -> pa.ListArray:
        return self._all_trees().take(pa.array(rows)).combine_chunks()

    def _all_trees(self) -> pa.ChunkedArray:
        if self._trees is None:
            self._trees = self._read("elements").column(0)
        return self._trees

    def images(self, rows: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Sorted rows with their images."""
        with damage_as_error(self._where), pq.ParquetFile(self._whole()) as file:
            ends = _group_ends(file.metadata)
            for group, of_group in groupby(rows, key=lambda row: bisect_right(ends, row)):
                first = ends[group - 1] if group else 0
                images = file.read_row_group(group, columns=["image.bytes"]).column(0).combine_chunks().field("bytes")
                yield from ((row, images[row - first].as_py()) for row in of_group)

    def _read(self, *columns: str) -> pa.Table:
        with damage_as_error(self._where):
            return _read(self._store, self._name, columns)

    def _footer(self) -> pq.FileMetaData:
        system, before = self._store.arrow_files()
        return pq.read_metadata(before + self._name, filesystem=system)

    def _whole(self) -> Path:
        """The file on this machine; images are read in no order."""
        if not self._fetched:
            self._store.fetch(self._name)
            self._fetched = True
        return self.path


def _read(store: FileStore, name: str, columns: Sequence[str]) -> pa.Table:
    """Read columns, of a file in a bucket without fetching the rest of it."""
    system, before = store.arrow_files()
    with store.one_line(name):
        return pq.read_table(before + name, columns=list(columns), filesystem=system, partitioning=None)


@lru_cache(maxsize=1024)
def _ids_in(warehouse: Warehouse, name: str, modified: int) -> tuple[str, ...]:
    """The ids of a committed file, read once in a process: all shards of a stage look for screens in the same files."""
    return tuple(_read(warehouse.store, name, ["screen_id"]).column(0).to_pylist())


def _group_ends(footer: pq.FileMetaData) -> list[int]:
    ends, total = [], 0
    for group in range(footer.num_row_groups):
        total += footer.row_group(group).num_rows
        ends.append(total)
    return ends
