"""Keeps the memory of a long run small."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_ARENA_MAX = -8  # of glibc's malloc.h


def limit_malloc_arenas() -> None:
    """Let the threads of this process share two heaps, if the C library is glibc.

    Its default is eight heaps for each core, and each keeps much of the memory that was freed in it. In the default job
    that was a fifth of all memory.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)
