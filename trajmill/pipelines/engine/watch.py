"""Starts a job on other machines, watches it, and starts it again when its workers are lost.

Beam's Python runners neither retry nor notice a lost machine: a killed worker ends the job, and one that is cut off
lets it wait for ever. Flink and Dataflow do both themselves. A start finds what earlier ones have finished, so a lost
worker costs one more start and what it had not stored.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable
from queue import Empty, Queue
from threading import Thread
from typing import NamedTuple

from trajmill.pipelines.engine.beam import PipelineResult, beam
from trajmill.pipelines.engine.settings import BeamSettings
from trajmill.pipelines.engine.signs import Signs, signs_of_new_start
from trajmill.schemas.errors import TrajmillError
from trajmill.warehouse.layout import StageRun, Warehouse

_SIGNS_IN_SILENCE = 10
"""Signs of life that must be missing before workers are taken for lost."""
_USUAL_SECONDS = 30.0
"""Seconds between two signs where no silence is too long."""
_STARTING_SECONDS = 900.0
"""Silence that is not too long before the first sign: an engine may have to start machines."""
_LONGEST_PAUSE_SECONDS = 60.0
_LONGEST_REASON = 300
_DETAILS = re.compile(r'details = "([^"]+)"')
"""What gRPC says of a broken connection, among the words of an error."""
_LOG = logging.getLogger(__name__)


class Lost(NamedTuple):
    """A job that has ended, or seems to have, without its work being done."""

    reason: str
    submitted: bool = True
    """Whether a job service took it at all."""


def run_watched(
    pipeline_of: Callable[[Signs], beam.Pipeline], warehouse: Warehouse, at: StageRun, settings: BeamSettings
) -> None:
    """Run a job to its end; start it again when its workers are lost, with a line for each start.

    Args:
        pipeline_of: makes the pipeline, whose workers give the signs.
        warehouse: where the signs are.
        at: the stage.
        settings: how often it may be started again, and how long workers may be silent.

    Raises:
        TrajmillError: no job service takes the job, a worker told an error, or workers were lost once too often.
    """
    every_seconds = settings.silent_seconds / _SIGNS_IN_SILENCE or _USUAL_SECONDS
    lost = Lost("")
    for restart in range(settings.restarts + 1):
        signs = signs_of_new_start(warehouse, at, every_seconds)
        outcome = _run(pipeline_of(signs), signs, settings.silent_seconds or math.inf)
        if outcome is None:
            return
        lost = outcome
        if not (lost.submitted or restart):
            raise TrajmillError(f"stage {at.stage}: {lost.reason}; correct beam.runner and beam.options, or start it")
        if restart < settings.restarts:
            line = "stage %s: %s; it is started again (%d of %d), finished work is kept"
            _LOG.warning(line, at.stage, lost.reason, restart + 1, settings.restarts)
            # Whoever keeps the workers alive needs a moment for a new one.
            time.sleep(min(2.0**restart, _LONGEST_PAUSE_SECONDS))
    raise TrajmillError(
        f"stage {at.stage}: {lost.reason}, the last of {settings.restarts + 1} starts (beam.restarts); see to the "
        "workers and run the same command again, finished work is kept"
    )


def _run(pipeline: beam.Pipeline, signs: Signs, silent_seconds: float) -> Lost | None:
    """Run a job; None if it was done."""
    ended: Queue[str] = Queue()
    job = _Job(pipeline, ended)
    job.start()
    try:
        reason = _end(ended, signs, silent_seconds)
    except BaseException:
        job.cancel()
        raise
    if reason is None:
        job.cancel()
        return Lost("no worker gives a sign of life any more")
    if not reason:
        return None
    if error := signs.error():
        raise error
    if not job.submitted:
        return Lost(f"no job service takes the job ({reason})", submitted=False)
    return Lost(f"the job ended ({reason})")


def _end(ended: Queue[str], signs: Signs, silent_seconds: float) -> str | None:
    """Wait for the end of a job; gives why it failed, empty if it did not, None if its workers are silent."""
    seen, since, patience = signs.alive(), time.monotonic(), max(silent_seconds, _STARTING_SECONDS)
    while True:
        try:
            return ended.get(timeout=signs.every_seconds)
        except Empty:
            now = signs.alive()
        if now != seen:
            seen, since, patience = now, time.monotonic(), silent_seconds
        elif time.monotonic() - since > patience:
            return None


class _Job(Thread):
    """Runs a pipeline in a thread of its own, because Beam's waiting for its end cannot be ended."""

    def __init__(self, pipeline: beam.Pipeline, ended: Queue[str]) -> None:
        super().__init__(daemon=True)
        self._pipeline, self._ended = pipeline, ended
        self._result: PipelineResult | None = None

    @property
    def submitted(self) -> bool:
        """Whether a job service has taken the job."""
        return self._result is not None

    def run(self) -> None:
        """Run the pipeline and tell why it failed."""
        try:
            self._result = self._pipeline.run()
            self._result.wait_until_finish()
        except Exception as error:
            self._ended.put(_what_was_wrong(error))
        else:
            self._ended.put("")

    def cancel(self) -> None:
        """Ask the runner to end the job, without waiting for it: who is cut off does not answer."""
        if self._result is not None:
            Thread(target=_cancel, args=(self._result,), daemon=True).start()


def _cancel(result: PipelineResult) -> None:
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
