"""Owning processes: who descends from one, ending them all, dying with the parent."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOCKS = Path("/tmp")  # where every X server puts its lock and its socket
_POLL_SECONDS = 0.005
_SECONDS_TO_END = 10.0


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the parent ends; to be called in the child, after any change of user."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none is lost from sight."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants(process: int) -> None:
    """Kill all that descends from a process, wait until it is gone, and remove what X servers among it left.

    Children of the caller are reaped. What does not end within some seconds (stuck in the kernel) is left.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + _SECONDS_TO_END
    while (alive := descendants(process)) and time.monotonic() < deadline:
        for one in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        killed |= alive
        _reap()
        time.sleep(_POLL_SECONDS)
    _remove_x_locks(killed)


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


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _remove_x_locks(killed: set[int]) -> None:
    for lock in _LOCKS.glob(".X*-lock"):
        with suppress(OSError, ValueError):
            if int(lock.read_text()) in killed:
                display = lock.name.removeprefix(".X").removesuffix("-lock")
                (_LOCKS / ".X11-unix" / f"X{display}").unlink(missing_ok=True)
                lock.unlink(missing_ok=True)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
