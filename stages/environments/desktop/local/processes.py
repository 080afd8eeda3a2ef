"""Owning processes: who descends from one, ending them all, dying with the parent."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_X_SERVER = "Xvfb"
_POLL_SECONDS = 0.005
_SECONDS_TO_LEAVE, _SECONDS_TO_END = 2.0, 10.0


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the parent ends; to be called in the child, after any change of user."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none is lost from sight."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants(process: int) -> None:
    """Kill all that descends from a process, and wait until it is gone.

    X servers are asked to leave first: one that is killed leaves its socket behind. Children of the caller are reaped.
    What does not end within some seconds (stuck in the kernel) is left.
    """
    _end_all(lambda: _x_servers(process), signal.SIGTERM, _SECONDS_TO_LEAVE)
    _end_all(lambda: descendants(process), signal.SIGKILL, _SECONDS_TO_END)


def descendants(process: int) -> set[int]:
    """The live descendants of a process; zombies are left out unless they are children of the caller."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
                if state != "Z" or int(parent) == os.getpid():
                    children.setdefault(int(parent), []).append(int(entry.name))
    found, waiting = set[int](), [process]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting.extend(below)
    return found


def _end_all(living: Callable[[], set[int]], how: signal.Signals, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (alive := living()) and time.monotonic() < deadline:
        for one in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, how)
        _reap()
        time.sleep(_POLL_SECONDS)


def _x_servers(process: int) -> set[int]:
    return {one for one in descendants(process) if _name(one) == _X_SERVER}


def _name(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text(errors="replace").strip()
    return ""


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
