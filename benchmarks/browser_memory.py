"""Memory of the browser that this process has started."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def browser_bytes() -> int:
    """Proportional set size of all processes that descend from this one."""
    return sum(_proportional(process) for process in _descendants(os.getpid()))


def _proportional(process: int) -> int:
    with suppress(OSError):
        for line in Path("/proc", str(process), "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _descendants(process: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found, waiting = set[int](), [process]
    while waiting:
        above = waiting.pop()
        below = [child for child, parent in parents.items() if parent == above]
        found.update(below)
        waiting.extend(below)
    return found
