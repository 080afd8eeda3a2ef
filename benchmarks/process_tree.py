"""What this process and all that descends from it use; Linux only."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from trajmill.stages.environments.desktop.local.processes import descendants

_TIMES = slice(11, 15)
"""Of `/proc/PID/stat` after the name: user and system time, its own and of children that have ended (`man 5 proc`)."""


def tree_bytes() -> int:
    """Proportional set size: pages that several processes share count once in all."""
    return sum(_proportional(process) for process in _tree())


def tree_cpu_seconds() -> float:
    """Processor time so far, also of descendants that have ended and whose parent is still there."""
    return sum(map(_ticks, _tree())) / os.sysconf("SC_CLK_TCK")


def peak_mib() -> float:
    """The most memory that this process alone has had; the figure of `getrusage` begins with that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024


def print_measured(name: str, work: Callable[[], object]) -> None:
    """Do some work and print a line of a table: what, seconds, CPU seconds of all processes, peak MiB of this."""
    # The peak is counted anew (`man 5 proc`).
    Path("/proc/self/clear_refs").write_text("5")
    start, cpu = perf_counter(), tree_cpu_seconds()
    work()
    seconds, spent = perf_counter() - start, tree_cpu_seconds() - cpu
    print(f"| {name} | {seconds:.3f} | {spent:.3f} | {peak_mib():,.0f} |", flush=True)


def _tree() -> set[int]:
    own = os.getpid()
    return {own, *descendants(own)}


def _proportional(process: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _ticks(process: int) -> int:
    with suppress(OSError):
        return sum(
            map(int, Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[_TIMES])
        )
    return 0
