"""Which processes descend from another."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def descendants(process: int) -> set[int]:
    """The live descendants of a process."""
    parents = _parents()
    found, waiting = set[int](), [process]
    while waiting:
        above = waiting.pop()
        below = [child for child, parent in parents.items() if parent == above]
        found.update(below)
        waiting.extend(below)
    return found


def alive() -> set[int]:
    """All processes of the machine but those that only wait to be reaped."""
    return set(_parents())


def _parents() -> dict[int, int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    parents[int(entry.name)] = int(parent)
    return parents


def named(command: str) -> list[int]:
    """The descendants of this process whose command line holds `command`."""
    found = []
    for process in descendants(os.getpid()):
        with suppress(OSError):
            if command in Path("/proc", str(process), "cmdline").read_text():
                found.append(process)
    return found
