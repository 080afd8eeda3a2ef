"""Caches the images of a release in a temporary file for random access.

The store keeps many images in one block: reading them in the order of the rows would read each block many times. The
cache copies the images of some thousands of rows at a time, in the order of the store.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.columns import Integers, list_lengths

GROUP_ROWS: Final = 1024
"""Most rows of a row group."""
GROUP_BYTES: Final = 4_000_000
"""Most bytes of a row group's images, repeated ones included, which is what a trainer holds when it reads the group. A
row with larger images is a group by itself."""
_ROWS_AHEAD = 2048


class _Place(NamedTuple):
    offset: int
    size: int


class ImageCache:
    """An `ImageReader` of the screens that were added."""

    def __init__(self, file: IO[bytes], screens: BulkScreenReader) -> None:
        """Copy images from `screens` to `file`, which is open and empty; the caller closes it."""
        self._file = file
        self._screens = screens
        self._places: dict[str, _Place] = {}
        self._contents: dict[bytes, _Place] = {}
        self._end = 0

    def column(self, screen_ids: Sequence[str]) -> pa.DictionaryArray:
        """Return the encoded images in the order of the ids; the dictionary has each image once, as Parquet requires.

        Raises:
            KeyError: a screen was not added.
        """
        numbers: dict[_Place, int] = {}
        indices = [numbers.setdefault(self._places[screen_id], len(numbers)) for screen_id in screen_ids]
        return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), self._read(list(numbers)))

    def length(self, screen_id: str) -> int:
        """Bytes of an encoded image. Raises KeyError for a screen that was not added."""
        return self._places[screen_id].size

    def screen_ids(self) -> list[str]:
        """Ids of all screens that were added, sorted."""
        return sorted(self._places)

    def groups(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Regroup rows into batches of one row group each, by the size of their images.

        Raises:
            KeyError: a screen was not added.
        """
        rest: list[pa.RecordBatch] = []
        for batch in batches:
            rows = pa.concat_batches([*rest, batch]) if rest else batch
            starts = self._group_starts(rows)
            for start, end in itertools.pairwise(starts):
                yield rows.slice(start, end - start)
            rest = [rows.slice(starts[-1])] if starts else []
        yield from rest

    def ahead_of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in small batches, with the images of column `screens` in the cache.

        Images of some thousands of rows are read together.

        Raises:
            KeyError: a screen is not stored.
        """
        window: list[pa.RecordBatch] = []
        for batch in batches:
            window.append(batch)
            # Release it before the next one is read.
            del batch
            if sum(waiting.num_rows for waiting in window) >= _ROWS_AHEAD:
                self.add(_shown_in(window))
                yield from _pieces(window)
                window = []
        self.add(_shown_in(window))
        yield from _pieces(window)

    def add(self, screen_ids: Iterable[str]) -> None:
        """Add images that were not added yet.

        Raises:
            KeyError: a screen is not stored.
        """
        for screen_id, data in self._screens.images(set(screen_ids) - self._places.keys()):
            self._places[screen_id] = self._written(data)
        self._file.flush()

    def _written(self, data: bytes) -> _Place:
        """Write an image unless an equal one is there: screens with different trees may have equal pixels."""
        content = hashlib.sha256(data).digest()
        if content not in self._contents:
            self._file.write(data)
            self._contents[content] = _Place(self._end, len(data))
            self._end += len(data)
        return self._contents[content]

    def _read(self, places: Sequence[_Place]) -> pa.BinaryArray:
        starts = np.zeros(len(places) + 1, np.int32)
        np.cumsum([place.size for place in places], out=starts[1:])
        data = np.empty(starts[-1], np.uint8)
        for place, start in zip(places, starts, strict=False):
            os.preadv(self._file.fileno(), [data.data[start : start + place.size]], place.offset)
        return pa.BinaryArray.from_buffers(pa.binary(), len(places), [None, pa.py_buffer(starts), pa.py_buffer(data)])

    def _group_starts(self, rows: pa.RecordBatch) -> list[int]:
        """Return the first row of each group; the last group may continue in the next batch."""
        before = self._bytes_before(rows.column("screen_ids"))
        starts: list[int] = []
        row = 0
        while row < rows.num_rows:
            starts.append(row)
            end = int(np.searchsorted(before, before[row] + GROUP_BYTES, side="right")) - 1
            row = min(max(end, row + 1), row + GROUP_ROWS)
        return starts

    def _bytes_before(self, screen_ids: pa.ListArray) -> Integers:
        """The bytes of the images before each row, and at last those of all."""
        shown = screen_ids.flatten().dictionary_encode()
        lengths = np.array([self.length(screen_id) for screen_id in shown.dictionary.to_pylist()], np.int64)
        before = np.zeros(len(shown) + 1, np.int64)
        np.cumsum(lengths[shown.indices.to_numpy()], out=before[1:])
        ends: Integers = np.concatenate([[0], np.cumsum(list_lengths(screen_ids))])
        return before[ends]


def _pieces(window: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split batches into slices of at most one row group."""
    for batch in window:
        yield from (batch.slice(start, GROUP_ROWS) for start in range(0, batch.num_rows, GROUP_ROWS))


def _shown_in(window: Iterable[pa.RecordBatch]) -> Iterator[str]:
    for batch in window:
        yield from batch.column("screens").flatten().unique().to_pylist()
