"""Shows how far some work is while it goes on; that is counted in its staging folder, which all workers write to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from trajmill.flows.progress import Advance, progress
from trajmill.pipelines.rollout import attempt_counter
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.staging import Progress, progress_of

_POLL_SECONDS = 0.5


class StageCounter:
    """Counts what a stage has done, also what other processes do."""

    def __init__(self, warehouse: Warehouse, at: StageRun, planned: int | None) -> None:
        """Count attempts if it is known how many the stage makes, else what its shards count."""
        self._folder = at.staging(warehouse)
        self._attempts = None if planned is None else attempt_counter(warehouse, at)
        self._last = Progress(0, planned)

    def progress(self) -> Progress:
        """The count; a stage that has removed its files is finished, so it has done all."""
        now = progress_of(self._folder)
        total = self._last.total if now.total is None or self._attempts else now.total
        done = self._attempts.count() if self._attempts else now.done
        if now.total is None and not self._attempts:
            done = total or done
        self._last = Progress(max(done, self._last.done), total)
        return self._last


@contextmanager
def watched_work(
    warehouse: Warehouse, at: StageRun, name: str, planned: int | None = None, unit: str = "rows"
) -> Iterator[None]:
    """Show under a name how far some work is; `planned` says how many attempts it makes, if it makes some."""
    counter = StageCounter(warehouse, at, planned)
    with progress().stage(at.round, name, planned, unit) as advance, _polling(counter, advance):
        yield


@contextmanager
def _polling(counter: StageCounter, advance: Advance) -> Iterator[None]:
    stop = threading.Event()

    def poll() -> None:
        seen = 0
        while True:
            ended = stop.wait(_POLL_SECONDS)
            now = counter.progress()
            advance(now.done - seen, total=now.total)
            seen = now.done
            if ended:
                return

    watcher = threading.Thread(target=poll, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
