"""The processes of a desktop: end descendants, drop root's rights, mount a private home."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import time
from contextlib import suppress
from pathlib import Path

from trajmill.stages.reaper import with_descendants

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.005
_SECONDS_TO_END = 10.0
_LISTENS = 0x10000
"""Among the flags of a socket in /proc/net/unix (`__SO_ACCEPTCON` of Linux)."""
HOME = Path("/home/user")
_ORDINARY_USER = "nobody"
_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends; call it in the child, after changes of the user."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants(process: int) -> None:
    """Kill all descendants of a process, and wait some seconds until they have ended.

    The socket files that they listen on are removed first: X servers and LibreOffice keep theirs in the common
    temporary folder. Children of the caller are reaped.
    """
    for file in listened_on(descendants(process)):
        with suppress(OSError):
            file.unlink()
    deadline = time.monotonic() + _SECONDS_TO_END
    while (alive := descendants(process)) and time.monotonic() < deadline:
        for one in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_POLL_SECONDS)


def descendants(process: int) -> set[int]:
    return with_descendants([process], zombies_of=os.getpid()) - {process}


def listened_on(processes: set[int]) -> set[Path]:
    held = set[str]()
    for one in processes:
        with suppress(OSError):
            for entry in Path(f"/proc/{one}/fd").iterdir():
                with suppress(OSError):
                    held.add(str(entry.readlink()))
    found = set[Path]()
    for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]:
        _, _, _, flags, _, _, inode, *path = line.split(maxsplit=7)
        if int(flags, 16) & _LISTENS and f"socket:[{inode}]" in held and path and path[0].startswith("/"):
            found.add(Path(path[0]))
    return found


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def private_home(folder: Path) -> Path:
    """Mount `folder` as `/home` and return the home to use: one under `folder` if the system forbids mounting."""
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
