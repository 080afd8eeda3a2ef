"""Shows the progress of long work: bars on a terminal, one line per stage elsewhere, nothing in tests.

A stage reports to `progress()`; the command line sets a display with `watched_by`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Protocol

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Advance(Protocol):
    """Reports that so many more rows are done."""

    def __call__(self, more: int, *, total: int | None = None) -> None:
        """So many more are done; `total` says how many there are, once that is known."""
        ...


class Watcher(Protocol):
    """Shows the progress of long work."""

    def stage(
        self, round_number: int, stage: str, total: int | None, unit: str = "rows"
    ) -> AbstractContextManager[Advance]:
        """Watch one stage; `total` is the number of rows, or of another unit, that it will do; None if unknown."""
        ...

    def show(self, content: RenderableType) -> None:
        """Show a finished piece of text, e.g. a round's table."""
        ...


class Unwatched:
    """Shows nothing."""

    @contextmanager
    def stage(self, round_number: int, stage: str, total: int | None, unit: str = "rows") -> Iterator[Advance]:
        """Watch one stage and show nothing."""
        yield _unseen

    def show(self, content: RenderableType) -> None:
        """Show nothing."""


class ConsoleWatcher:
    """Shows a bar per stage on a terminal, and one line per finished stage everywhere else.

    Stages that run at the same time in several threads share one display.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = _bars(console)
        self._shown = 0
        self._showing = threading.Lock()

    @contextmanager
    def stage(self, round_number: int, stage: str, total: int | None, unit: str = "rows") -> Iterator[Advance]:
        """Watch one stage; its bar disappears at its end."""
        started, done = time.monotonic(), 0
        with self._bar(f"round {round_number}  {stage}", total) as advance_bar:

            def advance(more: int, *, total: int | None = None) -> None:
                nonlocal done
                done += more
                advance_bar(more, total=total)

            yield advance
        if not self._console.is_terminal:
            seconds = time.monotonic() - started
            count = f"{done:>7,} {unit}" if done else " " * 12
            line = f"round {round_number}  {stage:<14} {count}  {seconds:6.1f} s"
            self._console.print(line, highlight=False, soft_wrap=True)

    def show(self, content: RenderableType) -> None:
        """Show a finished piece of text; lines that do not wrap are not cut."""
        self._console.print(content, crop=False)

    @contextmanager
    def _bar(self, description: str, total: int | None) -> Iterator[Advance]:
        """A bar; the first one starts the display, and the last one ends it."""
        with self._showing:
            if not self._shown:
                self._bars.start()
            self._shown += 1
        task = self._bars.add_task(description, total=total)
        try:
            yield partial(_update, self._bars, task)
        finally:
            with self._showing:
                self._shown -= 1
                if not self._shown:
                    self._bars.stop()
            self._bars.remove_task(task)


def _unseen(more: int, *, total: int | None = None) -> None:
    """Show nothing."""


def _update(bars: Progress, task: TaskID, more: int, *, total: int | None = None) -> None:
    bars.update(task, advance=more, total=total)


def _bars(console: Console) -> Progress:
    return Progress(
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


_WATCHER: ContextVar[Watcher] = ContextVar("trajmill_watcher")


def progress() -> Watcher:
    """The watcher of this context; the default shows nothing."""
    return _WATCHER.get(Unwatched())


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Let `watcher` watch the work inside."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)
