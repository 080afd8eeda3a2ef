"""End processes and remove folders after their owner has ended, even by `kill -9`. Linux only.

The reaper is one small process for each owner, which writes the names of processes and folders to a pipe; this closes
with the owner's end. The processes then get a moment to clean up and end; after that they are killed with all their
descendants. It runs by its file, so this module imports only the standard library.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

SECONDS_TO_LEAVE = 3.0
"""Time between the end of the owner and the killing of its processes."""
_SECONDS_TO_DIE = 10.0
_POLL_SECONDS = 0.02


class Reaper:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, process_ids: Iterable[int], folders: Iterable[Path], groups: Iterable[int] = ()) -> None:
        """After the owner's end, also end these processes and remove these folders; naming one twice is fine.

        `groups` are leaders of process groups, which are asked to end; what outlives a leader is killed, too.
        """
        names = [f"process {number}\0" for number in process_ids] + [f"folder {folder}\0" for folder in folders]
        names += [f"group {number}\0" for number in groups]
        if not names:
            return
        if self._process is None or self._process.poll() is not None:
            # Its own session: a signal to the owner's process group must not end it first.
            command = [sys.executable, "-I", "-S", __file__]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write("".join(names).encode("utf-8", "surrogateescape"))
            self._process.stdin.flush()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.communicate()


def end_processes(process_ids: Collection[int], groups: Collection[int] = ()) -> None:
    family: dict[int, int] = {}
    with contextlib.ExitStack() as handles:
        # All are stopped before one is killed, so that none starts another process or loses its parent meanwhile.
        while new := with_descendants([*process_ids, *family], groups=groups) - family.keys():
            for number in new:
                family[number] = _open(number)
                if family[number] >= 0:
                    handles.callback(os.close, family[number])
                    _signal(family[number], signal.SIGSTOP)
        for handle in family.values():
            _signal(handle, signal.SIGKILL)
        _await_end(family.values(), _SECONDS_TO_DIE)


def end_group(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Ask the process group of a child to end; after `seconds`, kill what is left of it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main() -> None:
    # A signal that interrupts the owner must not end the reaper before it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    handles, groups = dict[int, int](), dict[int, int]()
    folders: list[Path] = []
    unread = b""
    while piece := os.read(0, 65536):
        *names, unread = (unread + piece).split(b"\0")
        for name in names:
            kind, _, what = name.decode("utf-8", "surrogateescape").partition(" ")
            if kind == "folder":
                folders.append(Path(what))
            elif kind == "group":
                groups[int(what)] = _open(int(what))
            elif int(what) not in handles or not _is_running(handles[int(what)]):
                handles[int(what)] = _open(int(what))
    for group in _still_theirs(groups):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGTERM)
    _await_end([*handles.values(), *groups.values()], SECONDS_TO_LEAVE)
    end_processes([number for number, handle in handles.items() if _is_running(handle)], _still_theirs(groups))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _still_theirs(groups: Mapping[int, int]) -> list[int]:
    """Return the groups whose ids are not reused; `groups` has the handle of each leader by its id."""
    return [number for number, leader in groups.items() if _is_running(leader) or not with_descendants([number])]


def _open(process: int) -> int:
    """A handle of a process, whose id may be reused later; -1 if there is no such process."""
    try:
        return os.pidfd_open(process)
    except ProcessLookupError:
        return -1


def _signal(handle: int, number: signal.Signals) -> None:
    # The handle may be -1, or of another user's process.
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(handle, number)


def _await_end(handles: Collection[int], seconds: float) -> None:
    until = time.monotonic() + seconds
    while any(map(_is_running, handles)) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)


def _is_running(handle: int) -> bool:
    return handle >= 0 and not select.select([handle], [], [], 0)[0]


def with_descendants(process_ids: Iterable[int], zombies_of: int = -1, groups: Collection[int] = ()) -> set[int]:
    """Return the running processes among some and in groups, and their descendants; zombies only of `zombies_of`."""
    children: dict[int, list[int]] = {}
    existing, members = set[int](), list[int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                state, parent, group = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
                if state not in "ZX" or int(parent) == zombies_of:
                    existing.add(int(entry.name))
                    members += [int(entry.name)] if int(group) in groups else []
                    children.setdefault(int(parent), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [*(number for number in process_ids if number in existing), *members]
    while waiting:
        number = waiting.pop()
        found.add(number)
        waiting.extend(children.get(number, []))
    return found


if __name__ == "__main__":
    main()
