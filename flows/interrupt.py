"""Remembers that the user pressed Ctrl-C.

Beam turns the KeyboardInterrupt of a pipeline into an ordinary error, and Prefect would retry it. So the signal is
remembered, and code that handles an error can ask whether Ctrl-C caused it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import NoReturn

_NEVER = threading.Event()
_ASKED: ContextVar[threading.Event] = ContextVar("trajmill_asked_to_stop", default=_NEVER)


def asked_to_stop() -> bool:
    """Whether the user has pressed Ctrl-C since the command began."""
    return _ASKED.get().is_set()


@contextmanager
def noticing_interrupts() -> Iterator[threading.Event]:
    """Remember Ctrl-C inside and raise KeyboardInterrupt as usual; yields an event that is then set. Main thread."""
    asked = threading.Event()

    def remember(number: int, frame: FrameType | None) -> NoReturn:
        asked.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, remember)
    token = _ASKED.set(asked)
    try:
        yield asked
    finally:
        _ASKED.reset(token)
        signal.signal(signal.SIGINT, before)
