from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from trajmill.pipelines.work.garbage import seldom_searched

_FROZEN = """
import gc
from trajmill.pipelines.work.garbage import seldom_searched
with seldom_searched():
    with seldom_searched():
        pass
    print(gc.get_freeze_count() > 1000)
print(gc.get_freeze_count())
"""


class _Node:
    itself: _Node


def test_garbage_of_the_block_is_found_and_the_thresholds_are_as_before_after_it() -> None:
    before = gc.get_threshold()
    with seldom_searched():
        first = _Node()
        first.itself, seen = first, weakref.ref(first)
        del first
        searched = gc.get_threshold()
        kept = [_Node() for _ in range(searched[0] * 2)]
        assert seen() is None and len(kept)
    assert gc.get_threshold() == before != searched


@pytest.mark.slow
def test_what_was_there_before_the_block_is_not_searched_within_it_and_is_after_it() -> None:
    ended = subprocess.run([sys.executable, "-c", _FROZEN], capture_output=True, text=True)
    assert ended.stdout.split() == ["True", "0"], ended.stderr
