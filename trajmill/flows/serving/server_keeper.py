"""Runs a program and ends it together with the process that started the keeper.

A server may start further processes, and a model server occupies a whole GPU: left running, it would block every later
run. The keeper reads its standard input, a pipe that nobody writes to and that closes however its owner ends, even by
`kill -9`. Then it ends its whole process group: the program and all processes that the program has started.

Run as `python -m trajmill.flows.serving.server_keeper SECONDS PROGRAM ARGUMENT...`, as the leader of a process group.
SECONDS is the time between asking the program to end and killing it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


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
