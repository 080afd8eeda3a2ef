"""Starts servers that end with this process, even by `kill -9`: one that is left running may occupy a whole GPU."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trajmill.stages.reaper import Reaper, end_group

_POLL_SECONDS = 0.2
_SECONDS_TO_BE_GONE = 5.0


class KeptServer:
    """A server in a process group of its own; its output is appended to a log."""

    def __init__(self, program: Sequence[str], log: Path, seconds: float, environment: Mapping[str, str]) -> None:
        """Start it; `seconds` is the time between asking it to end and killing it."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as log_file:
            self.log, self.log_start, self._seconds = log, log_file.tell(), seconds
            self.process = subprocess.Popen(
                list(program),
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                env=os.environ | environment,
                start_new_session=True,
            )
        self._reaper = Reaper()
        self._reaper.watch([], [], groups=[self.process.pid])

    def end(self) -> None:
        """End the server with all its processes, and wait until they are gone."""
        end_group(self.process, self._seconds)
        until = time.monotonic() + _SECONDS_TO_BE_GONE
        with suppress(ProcessLookupError):
            while time.monotonic() < until:
                os.killpg(self.process.pid, signal.SIGKILL)
                time.sleep(_POLL_SECONDS)
        self._reaper.close()


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
