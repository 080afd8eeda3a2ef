"""Remembers Ctrl-C and SIGTERM: Beam turns a KeyboardInterrupt into an error, which Prefect would retry."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import NoReturn


class Interrupt:
    def __init__(self) -> None:
        self.number: int | None = None
        self.sigterm = Event()
        """Set by the first SIGTERM, for a thread that waits for it."""

    def remember(self, number: int, frame: FrameType | None) -> NoReturn:
        self.number = number
        if number == signal.SIGTERM and not self.sigterm.is_set():
            self.sigterm.set()
        raise KeyboardInterrupt


_INTERRUPT: ContextVar[Interrupt | None] = ContextVar("trajmill_asked_to_stop", default=None)


def asked_to_stop() -> bool:
    """Whether Ctrl-C or SIGTERM has come since the command began."""
    interrupt = _INTERRUPT.get()
    return interrupt is not None and interrupt.number is not None


@contextmanager
def noticing_interrupts() -> Iterator[Interrupt]:
    """Remember Ctrl-C and SIGTERM inside and raise KeyboardInterrupt; main thread only."""
    interrupt = Interrupt()
    token = _INTERRUPT.set(interrupt)
    try:
        with _handled(interrupt):
            yield interrupt
    finally:
        _INTERRUPT.reset(token)


@contextmanager
def still_noticing_interrupts() -> Iterator[None]:
    """Take the signals back inside a flow of Prefect, which handles SIGTERM itself; outside a command do nothing."""
    interrupt = _INTERRUPT.get()
    with nullcontext() if interrupt is None or current_thread() is not main_thread() else _handled(interrupt):
        yield


@contextmanager
def _handled(interrupt: Interrupt) -> Iterator[None]:
    before = {number: signal.signal(number, interrupt.remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
