"""Shows how far some work is while it goes on, from the counts in its staging folder, which all workers write to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from trajmill.flows.progress import progress
from trajmill.pipelines.rollout import attempt_counter
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.staging import Progress, progress_of

_POLL_SECONDS = 0.5


class StageCounter:
    """Counts what a stage has done, in all processes."""

    def __init__(self, warehouse: Warehouse, at: StageRun, planned: int | None) -> None:
        """Count attempts if their number is planned, else what the stage's shards count."""
        self._folder = at.staging(warehouse)
        self._attempts = None if planned is None else attempt_counter(warehouse, at)
        self._last = Progress(0, planned)

    def progress(self) -> Progress:
        """Return the count; a stage that has removed its files is finished and has done all."""
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
    """Show the progress of some work inside; `planned` is its number of attempts, if it makes attempts."""
    counter, stop = StageCounter(warehouse, at, planned), threading.Event()
    with progress().stage(at.round, name, planned, unit) as advance:

        def poll() -> None:
            shown, ended = 0, False
            while not ended:
                ended = stop.wait(_POLL_SECONDS)
                now = counter.progress()
                advance(now.done - shown, total=now.total)
                shown = now.done

        watcher = threading.Thread(target=poll, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()
