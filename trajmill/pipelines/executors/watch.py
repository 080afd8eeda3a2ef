"""Starts a job on other machines, watches the heartbeats of its workers, and starts it again when they are lost.

Beam's Python runners neither retry nor notice a lost machine: a killed worker ends the job, and one that is cut off
blocks it for ever. Flink and Dataflow handle both themselves. A start finds what earlier ones have finished, so a lost
worker costs one more start and what it had not stored.

Heartbeats and errors travel through the store, in a folder for each start in the stage's staging: Beam's portable
runners pass on errors only as the text of a traceback.
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from queue import Empty, Queue
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.store.base import StoreError

_BEATS_IN_SILENCE = 10
"""Heartbeats that must be missing before workers are taken for lost."""
_USUAL_SECONDS = 30.0
"""Seconds between two heartbeats where no silence is too long."""
_STARTING_SECONDS = 900.0
"""Silence that is not too long before the first heartbeat: an engine may have to start machines."""
_LONGEST_PAUSE_SECONDS = 60.0
_LONGEST_REASON = 300
_DETAILS = re.compile(r'details = "([^"]+)"')
"""The reason of a broken connection in the text of a gRPC error."""
_LOG = logging.getLogger(__name__)


class Pipeline(Protocol):
    """A pipeline of Beam."""

    def run(self) -> Any:
        """Submit it; returns a `PipelineResult`."""
        ...


class Start(NamedTuple):
    """One start of a job; picklable."""

    warehouse: Warehouse
    at: StageRun
    number: int
    """Unique within the stage."""
    every_seconds: float
    """Seconds between two heartbeats."""

    @property
    def attempt(self) -> str:
        """Added to the names of files, so that an earlier start that still writes never meets this one."""
        return f"-s{self.number}"

    def name(self, *parts: str) -> str:
        """The name in the store of a heartbeat or an error."""
        folder = self.warehouse.name(self.at.staging(self.warehouse) / "heartbeats")
        return "/".join((folder, f"{self.number:06d}", *parts))

    @contextmanager
    def working_on(self, shard: str) -> Iterator[None]:
        """Send heartbeats while the block lasts, and leave the error that ends it."""
        ended, store = threading.Event(), self.warehouse.store

        def stay_alive() -> None:
            for number in count():
                # The work itself uses the same store, and reports when it does not answer.
                with suppress(StoreError):
                    store.put(self.name("alive", shard), b"%d" % number)
                if ended.wait(self.every_seconds):
                    return

        alive = threading.Thread(target=stay_alive, daemon=True)
        alive.start()
        try:
            yield
        except Exception as error:
            line = str(error)
            if not isinstance(error, TrajmillError):
                line = f"stage {self.at.stage}: a worker failed: {type(error).__name__}: {error}"
            left = {"bad_input": isinstance(error, BadInputError), "line": line}
            store.put(self.name("errors", shard), json.dumps(left).encode())
            raise
        finally:
            ended.set()
            alive.join()

    def error(self) -> TrajmillError | None:
        """The first error that a worker left; None if none did."""
        for file in self.warehouse.store.files(self.name("errors")):
            left = json.loads(self.warehouse.store.get(file.name) or b"{}")
            return (BadInputError if left.get("bad_input") else TrajmillError)(left.get("line", "a worker failed"))
        return None


def run_watched(
    pipeline_of: Callable[[Start], Pipeline],
    warehouse: Warehouse,
    at: StageRun,
    restarts: int,
    silent_seconds: float,
) -> None:
    """Run a job to its end; start it again when its workers are lost, with a line for each start.

    `pipeline_of` makes the pipeline of a start, whose workers send its heartbeats; with `silent_seconds` 0 they may be
    silent for ever.

    Raises:
        TrajmillError: no job service takes the job, a worker left an error, or workers were lost once too often.
    """
    every_seconds = silent_seconds / _BEATS_IN_SILENCE or _USUAL_SECONDS
    numbers, reason = count(1), ""
    for restart in range(restarts + 1):
        start = next(start for number in numbers if _is_new(start := Start(warehouse, at, number, every_seconds)))
        lost = _lost(pipeline_of(start), start, silent_seconds or math.inf, is_first=not restart)
        if lost is None:
            return
        reason = lost
        if restart < restarts:
            line = "stage %s: %s; it is started again (%d of %d), finished work is kept"
            _LOG.warning(line, at.stage, reason, restart + 1, restarts)
            # Whoever keeps the workers alive needs a moment for a new one.
            time.sleep(min(2.0**restart, _LONGEST_PAUSE_SECONDS))
    raise TrajmillError(
        f"stage {at.stage}: {reason}, the last of {restarts + 1} starts (beam.restarts); see to the "
        "workers and run the same command again, finished work is kept"
    )


def _is_new(start: Start) -> bool:
    """Take the number of a start, unless another start has, or had it."""
    # Unique bytes: a store takes equal ones for a retry of the same request.
    return start.warehouse.store.create(start.name("started"), uuid4().bytes)


def _lost(pipeline: Pipeline, start: Start, silent_seconds: float, is_first: bool) -> str | None:
    """Run a job; returns why it ended, or seems to have, without its work being done; None if it was done."""
    submitted: list[Any] = []
    ended: Queue[str] = Queue()

    def run() -> None:
        try:
            submitted.append(pipeline.run())
            submitted[0].wait_until_finish()
        except Exception as error:
            ended.put(_what_was_wrong(error))
        else:
            ended.put("")

    def cancel() -> None:
        for job in submitted:
            # A machine that is cut off does not answer.
            threading.Thread(target=_cancel, args=(job,), daemon=True).start()

    # Beam's waiting for the end cannot be interrupted.
    threading.Thread(target=run, daemon=True).start()
    try:
        reason = _end(ended, start, silent_seconds)
    except BaseException:
        cancel()
        raise
    if reason is None:
        cancel()
        return "no worker sends a heartbeat any more"
    if not reason:
        return None
    if error := start.error():
        raise error
    if submitted:
        return f"the job ended ({reason})"
    lost = f"no job service takes the job ({reason})"
    if is_first:
        raise TrajmillError(f"stage {start.at.stage}: {lost}; correct beam.runner and beam.options, or start it")
    return lost


def _end(ended: Queue[str], start: Start, silent_seconds: float) -> str | None:
    """Wait for the end of a job; returns why it failed, empty if it did not, None if its workers are silent."""
    store, beats, since = start.warehouse.store, start.name("alive"), time.monotonic()
    seen, patience = store.files(beats), max(silent_seconds, _STARTING_SECONDS)
    while True:
        try:
            return ended.get(timeout=start.every_seconds)
        except Empty:
            now = store.files(beats)
        if now != seen:
            seen, since, patience = now, time.monotonic(), silent_seconds
        elif time.monotonic() - since > patience:
            return None


def _cancel(job: Any) -> None:
    try:
        job.cancel()
    except Exception as error:
        _LOG.debug("the job could not be cancelled: %s", error)


def _what_was_wrong(error: Exception) -> str:
    """The details of a connection that broke; else the last line with words, as of a worker's traceback."""
    if details := _DETAILS.search(str(error)):
        return details[1][:_LONGEST_REASON]
    lines = [line.strip() for line in str(error).splitlines() if any(letter.isalnum() for letter in line)]
    return (lines[-1] if lines else type(error).__name__)[:_LONGEST_REASON]
