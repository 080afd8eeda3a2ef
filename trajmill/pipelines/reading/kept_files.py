"""Keeps what was read from the committed rows of the rounds so far, so that a round reads its own rows alone.

What is kept lies beside the tables and can be deleted: it is made anew where it is missing, damaged or out of date.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from trajmill.warehouse.layout import Warehouse

_ROUNDS_KEPT: Final = 2
"""A round reads what was kept before it, and what has its own rows so far."""


class KeptFile(NamedTuple):
    """What is kept of the rounds before one."""

    before: int
    contents: bytes


@dataclass(frozen=True)
class KeptFiles:
    """What is kept of a run under one name, by the round before which all rounds are in it."""

    warehouse: Warehouse
    run_id: str
    name: str
    suffix: str = ".json"

    def newest_first(self, before: int) -> Iterator[KeptFile]:
        """What is kept of no more than the rounds before one; damaged files are left out."""
        for number in sorted(self._numbers(), reverse=True):
            if number <= before:
                digest, _, contents = (self.warehouse.store.get(self._path(number)) or b"").partition(b"\n")
                if digest == _hash(contents):
                    yield KeptFile(number, contents)

    def keep(self, before: int, contents: bytes) -> None:
        """Store what was read of all rounds before one, and delete what is kept of long before."""
        self.warehouse.store.put(self._path(before), _hash(contents) + b"\n" + contents)
        for number in self._numbers():
            if number <= before - _ROUNDS_KEPT:
                self.warehouse.store.delete(self._path(number))

    def _numbers(self) -> list[int]:
        names = (file.name.rpartition("/")[2] for file in self.warehouse.store.files(self._folder))
        return [int(name[:6]) for name in names if name[:6].isdecimal()]

    def _path(self, before: int) -> str:
        return f"{self._folder}/{before:06d}{self.suffix}"

    @property
    def _folder(self) -> str:
        return f"runs/{self.run_id}/{self.name}"


def _hash(contents: bytes) -> bytes:
    return hashlib.sha256(contents).hexdigest().encode()
