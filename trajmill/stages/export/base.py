"""The protocols of what an export reads images from, and the record of a written file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from trajmill.schemas.observation import ScreenReader


class ExportedFile(NamedTuple):
    """One file of a release."""

    path: str
    """Relative to the release's directory."""
    rows: int
    sha256: str
    bytes: int


class ImageReader(Protocol):
    """Gives the pixels of stored screens."""

    def column(self, screen_ids: Sequence[str]) -> pa.DictionaryArray:
        """The encoded images in the order of the ids; the dictionary has each image once.

        Raises:
            KeyError: a screen is not known.
        """
        ...


class BulkScreenReader(ScreenReader, Protocol):
    """A screen reader that reads many images together faster than one by one."""

    def images(self, screen_ids: Iterable[str]) -> Iterable[tuple[str, bytes]]:
        """Each id once with its encoded image, in the order that is fastest to read, few of them in memory.

        Raises:
            KeyError: a screen is not stored.
        """
        ...


class ReleaseScreenReader(BulkScreenReader, Protocol):
    """A screen reader that gives trees as a column, without an object for each element."""

    def trees(self, screen_ids: Sequence[str]) -> pa.ListArray:
        """The accessibility trees in the order of the ids, lists of `ELEMENT`. Raises KeyError for an unknown id."""
        ...
