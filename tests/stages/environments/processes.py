"""Processes of this machine: which there are, whose descendants they are, and waiting for their end."""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from trajmill.stages.reaper import with_descendants


def descendants(process: int) -> set[int]:
    return with_descendants([process]) - {process}


def children_of(process: int) -> set[int]:
    return {int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()}


def runs(process: int) -> bool:
    """Whether a process is there and no zombie that its parent has yet to notice."""
    return process in with_descendants([process])


def named(command: str) -> list[int]:
    """The descendants of this process whose command line holds `command`."""
    found = []
    for each in descendants(os.getpid()):
        with suppress(OSError):
            if command in Path("/proc", str(each), "cmdline").read_text():
                found.append(each)
    return found


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 600
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def until_gone(processes: Iterable[int], *folders: Path) -> None:
    left = list(processes)
    eventually(lambda: not with_descendants(left) and not any(folder.exists() for folder in folders))
