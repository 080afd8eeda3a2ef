"""Copies the images of a release to a temporary file: each distinct image is read from the store once, in order of id.

The store keeps many images in one compressed block, so reading them one by one in the order of the rows would read each
block many times. From the temporary file, images can be read in any order at the same cost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, NamedTuple

import pyarrow as pa

from trajmill.stages.export.base import BulkScreenReader

_ROWS_AHEAD = 4096
_IMAGES_AT_ONCE = 256


class _Place(NamedTuple):
    offset: int
    size: int


class ImageSpool:
    """An `ImageReader` for the screens that were added so far."""

    def __init__(self, file: IO[bytes], screens: BulkScreenReader) -> None:
        """Copy images from `screens` to `file`, which is open and empty; the caller closes it."""
        self._file = file
        self._screens = screens
        self._places: dict[str, _Place] = {}
        self._end = 0

    def image(self, screen_id: str) -> bytes:
        """The encoded image. Raises KeyError for a screen that was not added."""
        place = self._places[screen_id]
        return os.pread(self._file.fileno(), place.size, place.offset)

    def screen_ids(self) -> list[str]:
        """Ids of all screens that were added, sorted."""
        return sorted(self._places)

    def ahead_of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass batches on unchanged; the images of a batch's column `screens` are added before it is given.

        Raises:
            KeyError: a screen is not stored.
        """
        window: list[pa.RecordBatch] = []
        for batch in batches:
            window.append(batch)
            if sum(waiting.num_rows for waiting in window) >= _ROWS_AHEAD:
                self.add(_shown_in(window))
                yield from window
                window = []
        self.add(_shown_in(window))
        yield from window

    def add(self, screen_ids: Iterable[str]) -> None:
        """Add images that were not added yet.

        Raises:
            KeyError: a screen is not stored.
        """
        missing = iter(sorted(set(screen_ids) - self._places.keys()))
        while chunk := list(islice(missing, _IMAGES_AT_ONCE)):
            images = self._screens.images(chunk)
            for screen_id in chunk:
                data = images[screen_id]
                self._file.write(data)
                self._places[screen_id] = _Place(self._end, len(data))
                self._end += len(data)
        self._file.flush()


def _shown_in(window: Iterable[pa.RecordBatch]) -> Iterator[str]:
    for batch in window:
        yield from batch.column("screens").flatten().unique().to_pylist()
