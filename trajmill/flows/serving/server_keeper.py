"""Runs a program and ends it together with the process that started the keeper.

A server that is left running may occupy a whole GPU. The keeper reads its standard input, a pipe that nobody writes to
and that closes however its owner ends, even by `kill -9`. Then it ends its whole process group.

Run as `python -m trajmill.flows.serving.server_keeper SECONDS PROGRAM ARGUMENT...`, as the leader of a process group.
SECONDS is the time between asking the program to end and killing it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_POLL_SECONDS = 0.2
_SECONDS_TO_BE_GONE = 5.0


class KeptServer:
    """A server that ends with this process; its output is appended to a log."""

    def __init__(self, program: Sequence[str], log: Path, seconds: float, environment: Mapping[str, str]) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as log_file:
            self.log, self.log_start, self._seconds = log, log_file.tell(), seconds
            self.keeper = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(seconds), *program],
                stdin=subprocess.PIPE,
                stdout=log_file,
                stderr=log_file,
                env=os.environ | environment,
                start_new_session=True,
            )

    def ask_to_end(self) -> None:
        assert self.keeper.stdin is not None
        self.keeper.stdin.close()

    def end(self) -> None:
        """Wait until the server has ended, then kill what is left of its processes, and wait until that is gone."""
        self.ask_to_end()
        with suppress(subprocess.TimeoutExpired):
            self.keeper.wait(timeout=self._seconds + 5.0)
        until = time.monotonic() + _SECONDS_TO_BE_GONE
        with suppress(ProcessLookupError):
            os.killpg(self.keeper.pid, signal.SIGKILL)
            self.keeper.wait()
            while time.monotonic() < until:
                os.killpg(self.keeper.pid, signal.SIGKILL)
                time.sleep(_POLL_SECONDS)
        self.keeper.wait()


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def main() -> None:
    """Run the program until it ends, or standard input closes; ends with the program's exit code."""
    if os.getpgrp() != os.getpid():
        sys.exit("the keeper of a server has to lead a process group, which it ends as a whole")
    # The signal to the group must not end the keeper; unlike SIG_IGN, a handler is not inherited by the program.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    program = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_owner, args=(program, float(sys.argv[1])), daemon=True).start()
    code = program.wait()
    os.killpg(0, signal.SIGTERM)
    sys.exit(code if code >= 0 else 128 - code)


def _end_with_owner(program: subprocess.Popen[bytes], seconds: float) -> None:
    # os.read, because waiting in sys.stdin holds a lock that Python needs when it ends.
    while os.read(0, 1024):
        pass
    program.terminate()
    try:
        program.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
