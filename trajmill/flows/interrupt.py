"""Remembers that the user pressed Ctrl-C, or that the process was asked to end (SIGTERM).

Beam turns the KeyboardInterrupt of a pipeline into an ordinary error, and Prefect would retry it. So the signal is
remembered, and code that handles an error can ask whether it caused the error.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import NoReturn


class Interrupt:
    """The signal that asked a command to stop."""

    number: int | None = None
    """Number of the signal, None while none has come."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self.sigterm = Event()
        """Set by the first SIGTERM, for a thread that waits for it."""

    def remember(self, number: int, frame: FrameType | None) -> NoReturn:
        """Handle the signal."""
        self.number = number
        if number == signal.SIGTERM and not self.sigterm.is_set():
            self.sigterm.set()
        raise KeyboardInterrupt


_ASKED: ContextVar[Interrupt | None] = ContextVar("trajmill_asked_to_stop", default=None)


def asked_to_stop() -> bool:
    """Whether Ctrl-C or SIGTERM has come since the command began."""
    asked = _ASKED.get()
    return asked is not None and asked.number is not None


@contextmanager
def noticing_interrupts() -> Iterator[Interrupt]:
    """Remember Ctrl-C and SIGTERM inside and raise KeyboardInterrupt; yields what has come. Main thread only."""
    asked = Interrupt()
    token = _ASKED.set(asked)
    try:
        with _handled(asked):
            yield asked
    finally:
        _ASKED.reset(token)


@contextmanager
def still_noticing_interrupts() -> Iterator[None]:
    """The same within a flow of Prefect, which takes SIGTERM for itself; nothing where nobody notices them."""
    asked = _ASKED.get()
    with nullcontext() if asked is None or current_thread() is not main_thread() else _handled(asked):
        yield


@contextmanager
def _handled(asked: Interrupt) -> Iterator[None]:
    before = {number: signal.signal(number, asked.remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
