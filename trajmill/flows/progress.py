"""Shows the progress of long work: bars on a terminal, one line per stage elsewhere, nothing in tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.staging import Progress as StageProgress
from trajmill.warehouse.staging import progress_of

_POLL_SECONDS = 0.5
Update = Callable[[StageProgress], None]


class Unwatched:
    """Shows nothing; the base of what does."""

    @contextmanager
    def stage(self, round_number: int, stage: str, unit: str = "rows") -> Iterator[Update]:
        """Watch one stage, which counts rows or another unit."""
        yield lambda now: None

    def show(self, content: RenderableType) -> None: ...


class ConsoleWatcher(Unwatched):
    """Shows a bar per stage, also of several threads, on a terminal; elsewhere one line per finished stage."""

    def __init__(self, console: Console) -> None:
        self._console, self._shown, self._showing = console, 0, threading.Lock()
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<24}"),
            BarColumn(bar_width=36),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    @contextmanager
    def stage(self, round_number: int, stage: str, unit: str = "rows") -> Iterator[Update]:
        """Watch one stage; the first bar starts the display, and the end of the last one ends it."""
        started, done = time.monotonic(), 0
        with self._showing:
            if not self._shown:
                self._bars.start()
            self._shown += 1
        task = self._bars.add_task(f"round {round_number}  {stage}", total=None)

        def update(now: StageProgress) -> None:
            nonlocal done
            done = now.done
            self._bars.update(task, completed=now.done, total=now.total)

        try:
            yield update
        finally:
            with self._showing:
                self._shown -= 1
                if not self._shown:
                    self._bars.stop()
            self._bars.remove_task(task)
        if not self._console.is_terminal:
            count = f"{done:>7,} {unit}" if done else " " * 12
            line = f"round {round_number}  {stage:<14} {count}  {time.monotonic() - started:6.1f} s"
            self._console.print(line, highlight=False, soft_wrap=True)

    def show(self, content: RenderableType) -> None:
        # Lines that do not wrap are not cut.
        self._console.print(content, crop=False)


_WATCHER: ContextVar[Unwatched] = ContextVar("trajmill_watcher")


def progress() -> Unwatched:
    return _WATCHER.get(Unwatched())


@contextmanager
def watched_by(watcher: Unwatched) -> Iterator[None]:
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


class StageCounter:
    """Counts what a stage has done, in all processes; the count never falls."""

    def __init__(self, warehouse: Warehouse, at: StageRun) -> None:
        self._folder, self._last = at.staging(warehouse), StageProgress(0, None)

    def progress(self) -> StageProgress:
        """Return the count; a stage that has removed its files is finished and has done all."""
        now = progress_of(self._folder)
        if now.total is None:
            now = StageProgress(self._last.total or now.done, self._last.total)
        self._last = StageProgress(max(now.done, self._last.done), now.total)
        return self._last


@contextmanager
def watched_work(warehouse: Warehouse, at: StageRun, name: str, unit: str = "rows") -> Iterator[None]:
    counter, stop = StageCounter(warehouse, at), threading.Event()
    with progress().stage(at.round, name, unit) as update:

        def poll() -> None:
            ended = False
            while not ended:
                ended = stop.wait(_POLL_SECONDS)
                update(counter.progress())

        watcher = threading.Thread(target=poll, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()
