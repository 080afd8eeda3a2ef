"""Workers of pytest-xdist that are forks of one process, which has collected the tests once.

A worker needs 27 CPU seconds to import what the tests import (torch, transformers, Prefect, Beam) and to collect them.
A fork of a process that has done so needs 2.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest
    from execnet import XSpec

_COMMAND: Final = "from tests.forked_workers import fork_on_request; fork_on_request()"
_READY: Final = "ready\n"


def fork_workers(config: pytest.Config, specs: list[XSpec]) -> None:
    """Collect the tests in a process of its own and make the workers its forks; start them as usual if that fails."""
    folder = TemporaryDirectory()
    config.add_cleanup(folder.cleanup)
    address = f"{folder.name}/forks"
    command = [sys.executable, "-c", _COMMAND, address, "-m", config.option.markexpr, *config.args]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None

    def end() -> None:
        process.communicate()  # the end of its input is its end

    config.add_cleanup(end)
    if process.stdout.readline() == _READY:
        for spec in specs:
            spec.python = f"{sys.executable} -S -E {__file__} {address}"


def fork_on_request() -> None:
    """Collect tests, then fork for each connection. A fork has the streams that were sent to it."""
    import pytest  # a stand-in needs none of it

    atexit.register(os._exit, 0)  # first, so it runs last: Python's own teardown of so many modules takes seconds
    address, *wanted = sys.argv[1:]
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        pytest.main([*wanted, "--collect-only", "--numprocesses=0", "--capture=no", "-p", "no:cacheprovider"])
        if "torch" in sys.modules:
            import torch._dynamo  # noqa: F401  # The first optimizer of a process imports it, for 2.6 CPU seconds.
    if threads := _other_threads():
        sys.exit(f"workers are not forked: what the tests import has started threads, which no fork has: {threads}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print(_READY, end="", flush=True)
        while sys.stdin not in select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                return _work(connection)
            connection.close()
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _other_threads() -> list[str]:
    """Return the names of this process's threads, but for its first and those that jemalloc starts again in a fork."""
    tasks = (task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid()))
    return [name for task in tasks if (name := (task / "comm").read_text().strip()) != "jemalloc_bg_thd"]


def _work(connection: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    exec(eval(sys.stdin.readline()), {"__name__": "__main__"})  # what execnet tells a new process, too


def _stand_in(address: str) -> None:
    """Have a fork take the place of this process, which execnet started, and wait for its end."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"."], [0, 1, 2])
        connection.recv(1)


if __name__ == "__main__":
    _stand_in(sys.argv[1])
