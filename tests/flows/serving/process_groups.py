"""What is left of a process group."""

from __future__ import annotations

import time
from pathlib import Path

_PATIENCE_SECONDS = 60.0


def living(group: int) -> list[int]:
    """Process ids of a group, those left out that have ended and only wait for their parent to notice."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group_id = stat.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(group_id) == group and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def is_gone(group: int) -> bool:
    """Whether nothing is left of a group, now or soon."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while living(group):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
