"""Locks a run or a table, so that one process at a time works on it; a lock ends with its process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from trajmill.schemas.errors import TrajmillError
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.store.base import HeldError

_LOCK = "lock"


class RunInUseError(TrajmillError):
    """Another process works on the run."""


@contextmanager
def sole_worker(warehouse: Warehouse, run_id: str) -> Iterator[None]:
    """Lock a run, so that no other process works on it.

    Raises:
        RunInUseError: another process works on it; raised immediately.
        LeaseLostError: this process stood still for so long that another works on it.
    """
    folder = warehouse.staging(run_id)
    with ExitStack() as stack:
        try:
            stack.enter_context(warehouse.store.hold(warehouse.name(folder / _LOCK), wait=False))
        except HeldError as error:
            raise RunInUseError(
                f"run {run_id} in {warehouse.address}: process {error} is at work on it; wait for it to end, or stop it"
            ) from None
        if not warehouse.store.is_local:
            # What an earlier process has left on this machine may not be what others have stored since.
            shutil.rmtree(folder, ignore_errors=True)
        yield


def worker_of(warehouse: Warehouse, run_id: str) -> str | None:
    """The process that works on a run; None if none does. Nothing is locked by asking."""
    return warehouse.store.holder(warehouse.name(warehouse.staging(run_id) / _LOCK))


def sole_writer(warehouse: Warehouse, table: str) -> AbstractContextManager[None]:
    """Wait until no other process commits to a table, and keep them out."""
    return warehouse.store.hold(warehouse.name(warehouse.table(table) / "_lock"), wait=True)
