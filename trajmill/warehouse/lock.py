"""Locks a run or a table, so that one process at a time works on it; a lock ends with its process."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from trajmill.schemas.errors import TrajmillError
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.store.base import HeldError

_LOG = logging.getLogger(__name__)
_UPKEEP = " (upkeep)"
"""After the name of a process that only deletes what a run does not need."""
_UPKEEP_SECONDS = 900.0
"""Most seconds that a run waits for upkeep; `vacuum` looks at all files while it has the locks."""
_SECONDS_BETWEEN_LOOKS = 1.0


class RunInUseError(TrajmillError):
    """Another process works on the run."""


class RunInUpkeepError(RunInUseError):
    """Another process deletes what the run does not need, which ends soon."""


@contextmanager
def sole_worker(warehouse: Warehouse, run_id: str) -> Iterator[None]:
    """Lock a run, so that no other process works on it; upkeep is waited for, with a line in the log.

    Raises RunInUseError if another process works on it, or its upkeep has not ended in time.
    """
    until = 0.0
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(_locked(warehouse, run_id))
                break
            except RunInUpkeepError as error:
                if not until:
                    _LOG.warning("%s (this process waits, %.0f minutes at most)", error, _UPKEEP_SECONDS / 60)
                    until = time.monotonic() + _UPKEEP_SECONDS
                elif time.monotonic() >= until:
                    raise
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        yield


def sole_keeper(warehouse: Warehouse, run_id: str) -> AbstractContextManager[None]:
    """Lock a run to delete what it does not need. Raises RunInUseError at once if a process works on it."""
    return _locked(warehouse, run_id, _UPKEEP)


def worker_of(warehouse: Warehouse, run_id: str) -> str | None:
    """Return the process that works on a run, other than for upkeep; None if none does."""
    process = warehouse.store.holder(_lock(warehouse, run_id))
    return None if process is None or process.endswith(_UPKEEP) else process


def _lock(warehouse: Warehouse, run_id: str) -> str:
    return warehouse.name(warehouse.staging(run_id) / "lock")


@contextmanager
def _locked(warehouse: Warehouse, run_id: str, purpose: str = "") -> Iterator[None]:
    run = f"run {run_id} in {warehouse.address}"
    with ExitStack() as stack:
        try:
            stack.enter_context(warehouse.store.hold(_lock(warehouse, run_id), wait=False, purpose=purpose))
        except HeldError as error:
            process = str(error).removesuffix(_UPKEEP)
            if process != str(error):
                line = f"{run}: process {process} deletes what it does not need; wait for it to end"
                raise RunInUpkeepError(line) from None
            raise RunInUseError(f"{run}: process {process} is at work on it; wait for it to end, or stop it") from None
        if not warehouse.store.is_local:
            # What an earlier process has left on this machine may not be what others have stored since.
            shutil.rmtree(warehouse.staging(run_id), ignore_errors=True)
        yield


def sole_writer(warehouse: Warehouse, table: str) -> AbstractContextManager[None]:
    """Wait until no other process commits to a table, and keep them out."""
    return warehouse.store.hold(warehouse.name(warehouse.table(table) / "_lock"), wait=True)
