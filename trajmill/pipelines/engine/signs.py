"""What workers on other machines tell the process that started their job, through the store.

Each start of a job has a number of its own and a folder of signs in the stage's staging. A worker renews a small file
as long as it works on a shard, and leaves the error that ended a shard. Beam's portable runners tell neither: a job
whose machine is cut off waits for ever, and an error arrives as the text of a traceback.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import NamedTuple
from uuid import uuid4

from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.store.base import StoredFile, StoreError

_FOLDER = "signs"
_ALIVE = "alive"
_ERRORS = "errors"


class Signs(NamedTuple):
    """The signs of one start of a job; picklable."""

    warehouse: Warehouse
    at: StageRun
    start: int
    """Number of the start; unique within the stage."""
    every_seconds: float
    """Seconds between two signs of life."""

    def shard_of_start(self, shard: str) -> str:
        """The name under which this start does a shard: what an earlier start still writes never meets it."""
        return f"{shard}-s{self.start}"

    @contextmanager
    def working_on(self, shard: str) -> Iterator[None]:
        """Give signs of life as long as the block lasts, and tell the error that ends it."""
        ended = threading.Event()
        alive = threading.Thread(target=self._stay_alive, args=(shard, ended), daemon=True)
        alive.start()
        try:
            yield
        except Exception as error:
            self._tell(shard, error)
            raise
        finally:
            ended.set()
            alive.join()

    def alive(self) -> list[StoredFile]:
        """The signs of life so far; another list than before says that somebody works."""
        return self.warehouse.store.files(self.name(_ALIVE))

    def error(self) -> TrajmillError | None:
        """The first error that a worker told; None if none did."""
        for file in self.warehouse.store.files(self.name(_ERRORS)):
            told = json.loads(self.warehouse.store.get(file.name) or b"{}")
            return (BadInputError if told.get("bad_input") else TrajmillError)(told.get("line", "a worker failed"))
        return None

    def _stay_alive(self, shard: str, ended: threading.Event) -> None:
        for number in count():
            # The work itself meets the same store, and says if it does not answer.
            with suppress(StoreError):
                self.warehouse.store.put(self.name(_ALIVE, shard), b"%d" % number)
            if ended.wait(self.every_seconds):
                return

    def _tell(self, shard: str, error: Exception) -> None:
        expected = isinstance(error, TrajmillError)
        line = str(error) if expected else f"stage {self.at.stage}: a worker failed: {type(error).__name__}: {error}"
        told = {"bad_input": isinstance(error, BadInputError), "line": line}
        self.warehouse.store.put(self.name(_ERRORS, shard), json.dumps(told).encode())

    def name(self, *parts: str) -> str:
        """The name in the store of a sign."""
        folder = self.warehouse.name(self.at.staging(self.warehouse) / _FOLDER)
        return "/".join((folder, f"{self.start:06d}", *parts))


def signs_of_new_start(warehouse: Warehouse, at: StageRun, every_seconds: float) -> Signs:
    """The signs of a start with a number that no other start of the stage has, or had."""
    for start in count(1):
        signs = Signs(warehouse, at, start, every_seconds)
        # A name of its own in the file: a store takes equal bytes for the same attempt to create it.
        if warehouse.store.create(signs.name("started"), uuid4().bytes):
            return signs
    raise AssertionError
