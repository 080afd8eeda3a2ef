"""The processes of a desktop: ends descendants, and gives them the rights of an ordinary user and a separate home."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.005
_SECONDS_TO_END = 10.0
_LISTENS = 0x10000
"""Among the flags of a socket in /proc/net/unix (`__SO_ACCEPTCON` of Linux)."""
HOME = Path("/home/user")
"""The home folder that tasks name."""
_ORDINARY_USER = "nobody"
_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends; call it in the child, after any change of user."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that it remains a descendant."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants(process: int) -> None:
    """Kill all descendants of a process, and wait until they have ended.

    The socket files that they listen on are removed too: X servers and LibreOffice keep theirs in the common temporary
    folder. That is done first, while the files certainly belong to them. Children of the caller are reaped. A process
    that does not end within some seconds, because it hangs in the kernel, is left.
    """
    for file in listened_on(descendants(process)):
        with suppress(OSError):
            file.unlink()
    deadline = time.monotonic() + _SECONDS_TO_END
    while (alive := descendants(process)) and time.monotonic() < deadline:
        for one in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        _reap()
        time.sleep(_POLL_SECONDS)


def descendants(process: int) -> set[int]:
    """The living descendants of a process; zombies count only if they are children of the caller."""
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


def listened_on(processes: set[int]) -> set[Path]:
    """The files of the sockets that these processes listen on."""
    held = {link for one in processes for link in _open_files(one)}
    found = set[Path]()
    for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]:
        _, _, _, flags, _, _, inode, *path = line.split(maxsplit=7)
        if int(flags, 16) & _LISTENS and f"socket:[{inode}]" in held and path and path[0].startswith("/"):
            found.add(Path(path[0]))
    return found


def _open_files(process: int) -> Iterator[str]:
    with suppress(OSError):
        for entry in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                yield str(entry.readlink())


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def private_home(folder: Path) -> Path:
    """Mount `folder` as `/home` for this process and its children, if the system allows it.

    Returns:
        The home to use: `HOME`, or one under `folder` if mounting is not allowed.
    """
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    shown = (
        os.geteuid() == 0
        and HOME.parent.is_dir()
        and libc.unshare(_NEW_MOUNTS) == 0
        and libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None) == 0
        and libc.mount(os.fsencode(folder), os.fsencode(HOME.parent), None, _BIND, None) == 0
    )
    return HOME if shown else folder / HOME.name


def drop_root_rights(folder: Path) -> None:
    """Give up root's rights, for which some programs show warnings; `folder` then belongs to the ordinary user."""
    if os.geteuid() != 0:
        return
    user = pwd.getpwnam(_ORDINARY_USER)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
