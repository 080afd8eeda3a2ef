"""A folder that a process may only read, as another user's; also where the tests run as root."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VERSION_3 = 0x20080522
_DAC_OVERRIDE = 1
"""The capability with which root writes whatever the permissions say; see capabilities(7)."""


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody may write below a folder within the block; what this thread does then is refused as for other users."""
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        with _without_override():
            yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


@contextmanager
def _without_override() -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    thread, sets = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(thread, sets) == 0
    effective = sets[0]
    sets[0] &= ~(1 << _DAC_OVERRIDE)
    assert libc.capset(thread, sets) == 0
    try:
        yield
    finally:
        sets[0] = effective
        assert libc.capset(thread, sets) == 0
