"""Lets Python look for cyclic garbage less often while many objects come and go.

A full search goes through all objects of the process, those of the imported libraries included: 0.2 s and more, in
which no rollout slot gets on. The objects of 512 episodes would begin one every second, and writing the trees of
screens would take twice as long.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_THRESHOLDS = (20_000, 20, 10)
"""New objects until the youngest are searched, and how often until older ones are, too (`gc.set_threshold`)."""


@contextmanager
def seldom_searched() -> Iterator[None]:
    """Within the block, garbage is searched for seldom, and only among objects that the block has made."""
    before = gc.get_threshold()
    if before == _THRESHOLDS:
        yield  # inside another block
        return
    gc.set_threshold(*_THRESHOLDS)
    if not _others_froze():
        gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not _others_froze():
            gc.unfreeze()


@cache
def _others_froze() -> bool:
    """Whether objects were frozen before the first block; asked once, because each is counted (0.1 s for a million)."""
    return gc.get_freeze_count() > 0
