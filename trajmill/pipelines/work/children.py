"""Child processes that end with their owner, and that signals for its whole group do not reach.

Ctrl-C and `timeout` send a signal to all processes of a group. Their owner alone is to answer it: a child that dies of
it looks to the owner like a failure of the work.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from time import sleep

_CHECK_OWNER_SECONDS = 0.1
_STOPPING = (signal.SIGINT, signal.SIGTERM)


def children_context(preload: Sequence[str]) -> ForkServerContext:
    """Starts processes; each must begin with `end_with`, since it ignores Ctrl-C and SIGTERM until then.

    Args:
        preload: modules that are imported once for all of them; those of the first call count.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    # It would allow the signals again.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    return context


def end_with(owner: int) -> None:
    """Give this process a group of its own; end it when its owner ends, since a killed owner cannot end it."""
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)

    def watch() -> None:
        while _is_alive(owner):
            sleep(_CHECK_OWNER_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
