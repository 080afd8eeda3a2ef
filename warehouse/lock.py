"""Locks a run or a table, so that one process at a time works on it; a lock ends with its process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trajmill.schemas.errors import TrajmillError
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import Warehouse


class RunInUseError(TrajmillError):
    """Another process works on the run."""


@contextmanager
def sole_worker(warehouse: Warehouse, run_id: str) -> Iterator[None]:
    """Lock a run, so that no other process works on it.

    Raises:
        RunInUseError: another process works on it; raised immediately.
    """
    path = warehouse.staging(run_id) / "lock"
    with _opened(path) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 20).decode("ascii", "replace").strip() or "of another machine"
            raise RunInUseError(
                f"run {run_id} in {warehouse.root}: process {owner} is at work on it; wait for it to end, or stop it"
            ) from None
        with disk_full_as_error(path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        yield


@contextmanager
def sole_writer(warehouse: Warehouse, table: str) -> Iterator[None]:
    """Wait until no other process commits to a table, and keep them out."""
    with _opened(warehouse.table(table) / "_lock") as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
