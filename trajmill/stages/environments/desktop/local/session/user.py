"""Limits what a desktop's programs may change: they have an ordinary user's rights and a separate home."""

from __future__ import annotations

import ctypes
import os
import pwd
from pathlib import Path

HOME = Path("/home/user")
"""The home folder that tasks name."""
_ORDINARY_USER = "nobody"
_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000


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
