"""Which processes descend from another."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from trajmill.stages.environments.pool.reaper import with_descendants


def descendants(process: int) -> set[int]:
    return with_descendants([process]) - {process}


def alive() -> set[int]:
    """All processes of the machine but those that only wait to be reaped."""
    return with_descendants(map(int, filter(str.isdigit, os.listdir("/proc"))))  # noqa: PTH208


def named(command: str) -> list[int]:
    """The descendants of this process whose command line holds `command`."""
    found = []
    for process in descendants(os.getpid()):
        with suppress(OSError):
            if command in Path("/proc", str(process), "cmdline").read_text():
                found.append(process)
    return found
