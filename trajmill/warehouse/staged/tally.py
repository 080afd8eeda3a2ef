"""Counts what a stage has done in files of its staging folder, so that other processes can show its progress.

The files have a byte for each item, so that adding to one is one short write, and its size is the count. They say
nothing about what is stored: the markers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

_PLAN = "tally.total"
_DONE = "tally-{}.done"

T = TypeVar("T")


class Progress(NamedTuple):
    """How far a stage is."""

    done: int
    total: int | None
    """None if it is not known yet."""


class ShardTally:
    """Counts the items of one shard; a shard that is done anew begins at 0."""

    def __init__(self, folder: Path, shard: str) -> None:
        """Count in the staging folder of a stage."""
        self._file = folder / _DONE.format(shard)
        self._write("wb", 0)

    def add(self, items: int = 1) -> None:
        """So many more are done."""
        self._write("ab", items)

    def fill(self, items: int) -> None:
        """So many are done in all."""
        self._write("wb", items)

    def counted(self, items: Iterable[T]) -> Iterator[T]:
        """The items; each counts when the next one is asked for."""
        for item in items:
            yield item
            self.add()

    def _write(self, mode: str, items: int) -> None:
        # A full disk ends the stage where it writes rows, not here.
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open(mode) as file:
                file.write(b"." * items)


def plan(folder: Path, total: int) -> None:
    """Say how many items a stage has."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _PLAN).write_text(str(total))


def progress_of(folder: Path) -> Progress:
    """How far the stage of a staging folder is."""
    total = None
    with suppress(OSError, ValueError):
        total = int((folder / _PLAN).read_text())
    done = 0
    for file in folder.glob(_DONE.format("*")):
        with suppress(OSError):
            done += file.stat().st_size
    # A shard that two workers have begun counts twice.
    return Progress(done if total is None else min(done, total), total)
