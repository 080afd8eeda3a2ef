"""Ends the processes that an engine has started when their owner ended without doing so, `kill -9` included.

vLLM's engine runs beside its owner and does not notice when that is gone: it would hold its GPU until somebody looks.
The guard reads a pipe from the owner, which closes however the owner ends.
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
    """Watches over processes for as long as the process that makes it lives (Linux)."""

    def __init__(self, process_ids: Collection[int]) -> None:
        # By its file, so that it starts wherever the owner got its modules from; in a session of its own, so that what
        # ends the owner's process group does not end the guard first.
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__, *map(str, process_ids)], stdin=subprocess.PIPE, start_new_session=True
        )

    @property
    def process_id(self) -> int:
        """Id of the guard's own process."""
        return self._process.pid

    def dismiss(self) -> int:
        """End the guard, whose exit status is returned; the processes are left to their owner."""
        self._process.communicate(_LEAVE)
        return self._process.returncode


def main() -> None:
    """Wait for the owner's word, or its end."""
    # Handles, not numbers: the number of a process that has ended may become another's.
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
