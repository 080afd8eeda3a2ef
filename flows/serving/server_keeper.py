"""Runs a program that lives no longer than the process that started this one.

A model server starts processes of its own and holds a whole GPU: left behind, it would block every later run. The
keeper reads its standard input, a pipe that nobody writes to and that closes however its owner ends, `kill -9`
included; then it ends its whole process group, which is the program and whatever the program has started.

Run as `python -m trajmill.flows.serving.server_keeper PROGRAM ARGUMENT...`, as the leader of a process group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

SECONDS_TO_LEAVE = 15.0
"""Time that the program has between being asked and being made to end."""


def main() -> None:
    """Run the program until it ends, or standard input closes; ends with the program's exit code."""
    if os.getpgrp() != os.getpid():
        sys.exit("the keeper of a server has to lead a process group, which it ends as a whole")
    # A handler, unlike SIG_IGN, is not handed on to the program; the group's own signal must not end the keeper.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_leave_with_owner, args=(program,), daemon=True).start()
    code = program.wait()
    os.killpg(0, signal.SIGTERM)
    sys.exit(code if code >= 0 else 128 - code)


def _leave_with_owner(program: subprocess.Popen[bytes]) -> None:
    # Not through sys.stdin, whose lock, held here while waiting, Python cannot get when it ends.
    while os.read(0, 1024):
        pass
    program.terminate()
    try:
        program.wait(timeout=SECONDS_TO_LEAVE)
    except subprocess.TimeoutExpired:
        pass
    finally:
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
