"""Writes files of screens beside the episodes, so that a stage does not wait for all of its pictures at its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from trajmill.warehouse.staged.new_screens import NewScreens

_LOOK_SECONDS = 0.5


@contextmanager
def written_beside(screens: NewScreens) -> Iterator[Callable[[], None]]:
    """Write files in a thread whenever the journals have grown enough for one; what comes last is left to the caller.

    Gives a function to call after the last episode: all that there is is written then, beside what the caller does.

    Raises:
        TrajmillError: the disk is full; raised at the end of the block.
    """
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(_LOOK_SECONDS):
            screens.write_grown()

    with ThreadPoolExecutor(1) as thread:
        begun: list[Future[object]] = [thread.submit(follow)]

        def write_now() -> None:
            ended.set()
            begun.append(thread.submit(screens.write))

        try:
            yield write_now
        finally:
            ended.set()
    for each in begun:
        each.result()
