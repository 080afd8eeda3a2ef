"""Ends the processes of an engine if their owner has ended without doing so, even by `kill -9`.

vLLM's engine is a process of its own and does not notice that its owner has ended: it would occupy the GPU. The
watchdog reads a pipe from the owner, which closes however the owner ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Collection

_LEAVE = b"."


class ProcessWatchdog:
    """Ends processes when the process that made it ends (Linux)."""

    def __init__(self, process_ids: Collection[int]) -> None:
        # It is started by its file, so that it does not depend on the owner's module path. It has its own session, so
        # that a signal to the owner's process group does not end it first.
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__, *map(str, process_ids)], stdin=subprocess.PIPE, start_new_session=True
        )

    @property
    def process_id(self) -> int:
        return self._process.pid

    def dismiss(self) -> int:
        """End the watchdog and return its exit status; the owner then has to end the processes."""
        self._process.communicate(_LEAVE)
        return self._process.returncode


def main() -> None:
    """Wait until the owner dismisses the watchdog, or ends."""
    # Handles are used and not process ids, because the id of an ended process may be given to another one.
    handles = []
    for argument in sys.argv[1:]:
        with contextlib.suppress(ProcessLookupError):
            handles.append(os.pidfd_open(int(argument)))
    if sys.stdin.buffer.read(1) == _LEAVE:
        return
    for handle in handles:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)


if __name__ == "__main__":
    main()
