"""Reads the pixels and trees of committed screens by id."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain, groupby
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

        Raises KeyError if an id is unknown; no image is given then.
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
        parts = [file.trees.take(pa.array(list(rows.values()))).combine_chunks() for file, rows in wanted.items()]
        places = np.fromiter(chain.from_iterable(wanted.values()), np.int64, len(screen_ids))
        return pa.concat_arrays(parts).take(pa.array(np.argsort(places)))

    def size(self, screen_id: str) -> Size:
        """Width and height in pixels. Raises KeyError for an unknown id."""
        file, row = self._find(screen_id)
        return Size(*(int(column[row]) for column in file.sizes))

    def _find(self, screen_id: str) -> tuple[_ScreenFile, int]:
        row = self._rows[screen_id]
        index = bisect_right(self._starts, row) - 1
        return self._files[index], row - self._starts[index]

    def _decode(self, screen_id: str) -> tuple[UIElement, ...]:
        file, row = self._find(screen_id)
        return tuple(
            UIElement(**element | {"bounds": Box(*element["bounds"]), "states": tuple(element["states"])})
            for element in file.trees[row].as_py()
        )


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
    def __init__(self, warehouse: Warehouse, path: Path) -> None:
        self.path, self._warehouse, self._name = path, warehouse, warehouse.name(path)
        self._where = warehouse.store.uri(self._name)
        system, before = warehouse.store.arrow_files()
        with warehouse.store.one_line(self._name), damage_as_error(self._where):
            self.rows = pq.read_metadata(before + self._name, filesystem=system).num_rows

    def ids(self) -> Sequence[str]:
        modified = self.path.stat().st_mtime_ns if self.path.exists() else 0
        return _ids_in(self._warehouse, self._name, modified)

    @cached_property
    def sizes(self) -> list[npt.NDArray[np.int32]]:
        return [column.to_numpy() for column in _read(self._warehouse, self._name, "width", "height").columns]

    @cached_property
    def trees(self) -> pa.ChunkedArray:
        return _read(self._warehouse, self._name, "elements").column(0)

    @cached_property
    def _whole(self) -> Path:
        """The file on this machine; images are read in no order."""
        self._warehouse.store.fetch(self._name)
        return self.path

    def images(self, rows: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Sorted rows with their images."""
        with damage_as_error(self._where), pq.ParquetFile(self._whole) as file:
            ends = _group_ends(file.metadata)
            for group, of_group in groupby(rows, key=lambda row: bisect_right(ends, row)):
                first = ends[group - 1] if group else 0
                images = file.read_row_group(group, columns=["image.bytes"]).column(0).combine_chunks().field("bytes")
                yield from ((row, images[row - first].as_py()) for row in of_group)


def _read(warehouse: Warehouse, name: str, *columns: str) -> pa.Table:
    """Read columns, of a file in a bucket without fetching the rest of it."""
    system, before = warehouse.store.arrow_files()
    with damage_as_error(warehouse.store.uri(name)), warehouse.store.one_line(name):
        return pq.read_table(before + name, columns=list(columns), filesystem=system, partitioning=None)


@lru_cache(maxsize=1024)
def _ids_in(warehouse: Warehouse, name: str, modified: int) -> tuple[str, ...]:
    """The ids of a committed file, read once in a process: all shards of a stage look for screens in the same files."""
    return tuple(_read(warehouse, name, "screen_id").column(0).to_pylist())


def _group_ends(footer: pq.FileMetaData) -> list[int]:
    return list(accumulate(footer.row_group(group).num_rows for group in range(footer.num_row_groups)))
