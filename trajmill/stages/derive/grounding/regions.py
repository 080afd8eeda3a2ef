"""Cuts a dense screen into regions along the widest gaps between its elements (dense grounding, paper 2.2.2).

The paper segments pictures with SAM; here the boxes of the tree say where nothing is cut through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement

_MARGIN = 8
"""Pixels around the elements of a region, where the screen has them."""


class _Gap(NamedTuple):
    """A strip without elements across a region."""

    width: int
    middle: int
    vertical: bool
    """Whether it runs from top to bottom."""


def regions(elements: Sequence[UIElement], size: Size, most: int) -> list[Box]:
    """Boxes that hold at most `most` elements each where gaps allow it, in reading order; none cuts an element."""
    boxes = [element.bounds for element in elements if element.bounds.area]
    return [_around(part, size) for part in _split(boxes, most)]


def _split(boxes: list[Box], most: int) -> list[list[Box]]:
    gap = _widest_gap(boxes) if len(boxes) > most else None
    if gap is None:
        return [boxes] if boxes else []
    first = [box for box in boxes if (box.right if gap.vertical else box.bottom) <= gap.middle]
    second = [box for box in boxes if box not in first]
    return [*_split(first, most), *_split(second, most)]


def _widest_gap(boxes: Sequence[Box]) -> _Gap | None:
    gaps = [
        *(_Gap(width, middle, False) for width, middle in _gaps([(box.top, box.bottom) for box in boxes])),
        *(_Gap(width, middle, True) for width, middle in _gaps([(box.left, box.right) for box in boxes])),
    ]
    return max(gaps, default=None, key=lambda gap: (gap.width, not gap.vertical, -gap.middle))


def _gaps(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Width and middle of each gap between spans."""
    found, end = [], None
    for low, high in sorted(spans):
        if end is not None and low > end:
            found.append((low - end, (low + end) // 2))
        end = high if end is None else max(end, high)
    return found


def _around(boxes: Sequence[Box], size: Size) -> Box:
    return Box(
        max(0, min(box.left for box in boxes) - _MARGIN),
        max(0, min(box.top for box in boxes) - _MARGIN),
        min(size.width, max(box.right for box in boxes) + _MARGIN),
        min(size.height, max(box.bottom for box in boxes) + _MARGIN),
    )
