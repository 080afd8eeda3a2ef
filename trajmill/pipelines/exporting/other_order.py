"""Gives rows in another order than that in which they are read, through a temporary file.

Rows that lie side by side in the warehouse are fast to read together, and a trainer may want them in another order.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import IO, Generic, NamedTuple, TypeVar

T = TypeVar("T")
K = TypeVar("K", int, tuple[str, str, int])


class _Place(NamedTuple):
    offset: int
    size: int


class OtherOrder(Generic[K, T]):
    """Rows in a temporary file; memory holds a key for each of its parts."""

    def __init__(self, file: IO[bytes]) -> None:
        """Write to `file`, which is open and empty; the caller closes it."""
        self._file = file
        self._places: list[tuple[K, _Place]] = []
        self._end = 0

    def add(self, key: K, rows: Sequence[T]) -> None:
        """Add rows that stay together, in their order; they must be picklable."""
        data = pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)
        self._file.write(data)
        self._places.append((key, _Place(self._end, len(data))))
        self._end += len(data)

    def sorted(self) -> Iterator[T]:
        """All rows in the order of their keys."""
        for _, place in sorted(self._places):
            self._file.seek(place.offset)
            yield from pickle.loads(self._file.read(place.size))
