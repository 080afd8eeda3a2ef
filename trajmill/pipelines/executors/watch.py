"""Starts a job on other machines, watches the heartbeats of its workers, and starts it again when they are lost.

Beam's Python runners neither retry nor notice a lost machine: a killed worker ends the job, and one that is cut off
blocks it for ever. Flink and Dataflow handle both themselves. A start finds what earlier ones have finished, so a lost
worker costs one more start and what it had not stored.

Heartbeats and errors travel through the store. Each start has a number and a folder in the stage's staging. A worker
renews a small file there while it works on a shard, and leaves the error that ended a shard: Beam's portable runners
pass on errors only as the text of a traceback.
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
from trajmill.warehouse.store.base import StoredFile, StoreError

_BEATS_IN_SILENCE = 10
"""Heartbeats that must be missing before workers are taken for lost."""
_USUAL_SECONDS = 30.0
"""Seconds between two heartbeats where no silence is too long."""
_STARTING_SECONDS = 900.0
"""Silence that is not too long before the first heartbeat: an engine may have to start machines."""
_LONGEST_PAUSE_SECONDS = 60.0
_LONGEST_REASON = 300
_FOLDER = "heartbeats"
_ALIVE = "alive"
_ERRORS = "errors"
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

    @contextmanager
    def working_on(self, shard: str) -> Iterator[None]:
        """Send heartbeats while the block lasts, and leave the error that ends it."""
        ended = threading.Event()
        alive = threading.Thread(target=self._stay_alive, args=(shard, ended), daemon=True)
        alive.start()
        try:
            yield
        except Exception as error:
            self._leave(shard, error)
            raise
        finally:
            ended.set()
            alive.join()

    def heartbeats(self) -> list[StoredFile]:
        """The heartbeats so far; the list changes while any worker lives."""
        return self.warehouse.store.files(self.name(_ALIVE))

    def error(self) -> TrajmillError | None:
        """The first error that a worker left; None if none did."""
        for file in self.warehouse.store.files(self.name(_ERRORS)):
            left = json.loads(self.warehouse.store.get(file.name) or b"{}")
            return (BadInputError if left.get("bad_input") else TrajmillError)(left.get("line", "a worker failed"))
        return None

    def _stay_alive(self, shard: str, ended: threading.Event) -> None:
        for number in count():
            # The work itself uses the same store, and reports when it does not answer.
            with suppress(StoreError):
                self.warehouse.store.put(self.name(_ALIVE, shard), b"%d" % number)
            if ended.wait(self.every_seconds):
                return

    def _leave(self, shard: str, error: Exception) -> None:
        expected = isinstance(error, TrajmillError)
        line = str(error) if expected else f"stage {self.at.stage}: a worker failed: {type(error).__name__}: {error}"
        left = {"bad_input": isinstance(error, BadInputError), "line": line}
        self.warehouse.store.put(self.name(_ERRORS, shard), json.dumps(left).encode())

    def name(self, *parts: str) -> str:
        """The name in the store of a heartbeat or an error."""
        folder = self.warehouse.name(self.at.staging(self.warehouse) / _FOLDER)
        return "/".join((folder, f"{self.number:06d}", *parts))


def new_start(warehouse: Warehouse, at: StageRun, every_seconds: float) -> Start:
    """A start with a number that no other start of the stage has, or had."""
    for number in count(1):
        start = Start(warehouse, at, number, every_seconds)
        # Unique bytes: a store takes equal ones for a retry of the same request.
        if warehouse.store.create(start.name("started"), uuid4().bytes):
            return start
    raise AssertionError


class Lost(NamedTuple):
    """A job that has ended, or seems to have, without its work being done."""

    reason: str
    submitted: bool = True
    """Whether a job service took it at all."""


def run_watched(
    pipeline_of: Callable[[Start], Pipeline],
    warehouse: Warehouse,
    at: StageRun,
    restarts: int,
    silent_seconds: float,
) -> None:
    """Run a job to its end; start it again when its workers are lost, with a line for each start.

    Args:
        pipeline_of: makes the pipeline, whose workers send the heartbeats.
        warehouse: where the heartbeats are.
        at: the stage.
        restarts: how often it may be started again.
        silent_seconds: how long all workers may be silent; 0 waits for ever.

    Raises:
        TrajmillError: no job service takes the job, a worker left an error, or workers were lost once too often.
    """
    every_seconds = silent_seconds / _BEATS_IN_SILENCE or _USUAL_SECONDS
    lost = Lost("")
    for restart in range(restarts + 1):
        start = new_start(warehouse, at, every_seconds)
        outcome = _run(pipeline_of(start), start, silent_seconds or math.inf)
        if outcome is None:
            return
        lost = outcome
        if not (lost.submitted or restart):
            raise TrajmillError(f"stage {at.stage}: {lost.reason}; correct beam.runner and beam.options, or start it")
        if restart < restarts:
            line = "stage %s: %s; it is started again (%d of %d), finished work is kept"
            _LOG.warning(line, at.stage, lost.reason, restart + 1, restarts)
            # Whoever keeps the workers alive needs a moment for a new one.
            time.sleep(min(2.0**restart, _LONGEST_PAUSE_SECONDS))
    raise TrajmillError(
        f"stage {at.stage}: {lost.reason}, the last of {restarts + 1} starts (beam.restarts); see to the "
        "workers and run the same command again, finished work is kept"
    )


def _run(pipeline: Pipeline, start: Start, silent_seconds: float) -> Lost | None:
    """Run a job; None if it was done."""
    ended: Queue[str] = Queue()
    job = _Job(pipeline, ended)
    job.start()
    try:
        reason = _end(ended, start, silent_seconds)
    except BaseException:
        job.cancel()
        raise
    if reason is None:
        job.cancel()
        return Lost("no worker sends a heartbeat any more")
    if not reason:
        return None
    if error := start.error():
        raise error
    if not job.submitted:
        return Lost(f"no job service takes the job ({reason})", submitted=False)
    return Lost(f"the job ended ({reason})")


def _end(ended: Queue[str], start: Start, silent_seconds: float) -> str | None:
    """Wait for the end of a job; returns why it failed, empty if it did not, None if its workers are silent."""
    seen, since, patience = start.heartbeats(), time.monotonic(), max(silent_seconds, _STARTING_SECONDS)
    while True:
        try:
            return ended.get(timeout=start.every_seconds)
        except Empty:
            now = start.heartbeats()
        if now != seen:
            seen, since, patience = now, time.monotonic(), silent_seconds
        elif time.monotonic() - since > patience:
            return None


class _Job(threading.Thread):
    """Runs a pipeline in its own thread, because Beam's waiting for the end cannot be interrupted."""

    def __init__(self, pipeline: Pipeline, ended: Queue[str]) -> None:
        super().__init__(daemon=True)
        self._pipeline, self._ended = pipeline, ended
        self._result: Any = None

    @property
    def submitted(self) -> bool:
        """Whether a job service has taken the job."""
        return self._result is not None

    def run(self) -> None:
        """Run the pipeline and pass on why it failed."""
        try:
            self._result = self._pipeline.run()
            self._result.wait_until_finish()
        except Exception as error:
            self._ended.put(_what_was_wrong(error))
        else:
            self._ended.put("")

    def cancel(self) -> None:
        """Cancel the job without waiting: a machine that is cut off does not answer."""
        if self._result is not None:
            threading.Thread(target=_cancel, args=(self._result,), daemon=True).start()


def _cancel(result: Any) -> None:
    try:
        result.cancel()
    except Exception as error:
        _LOG.debug("the job could not be cancelled: %s", error)


def _what_was_wrong(error: Exception) -> str:
    """The details of a connection that broke; else the last line with words, as of a worker's traceback."""
    if details := _DETAILS.search(str(error)):
        return details[1][:_LONGEST_REASON]
    lines = [line.strip() for line in str(error).splitlines() if any(letter.isalnum() for letter in line)]
    return (lines[-1] if lines else type(error).__name__)[:_LONGEST_REASON]
