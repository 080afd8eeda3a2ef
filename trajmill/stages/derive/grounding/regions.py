"""Cuts a dense screen into regions along the widest gaps between its elements (dense grounding, paper 2.2.2).

The paper segments pictures with SAM; here the boxes of the tree show where nothing is cut through. A region is a screen
of its own, with the part of the tree that lies in it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from PIL import Image

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import content_id


class CroppedScreen(NamedTuple):
    """A region of a screen."""

    box: Box
    """Where it lies on the screen."""
    observation: Observation

    @property
    def screen_id(self) -> str:
        """Its id as a stored screen."""
        return self.observation.screen.screen_id

    @property
    def size(self) -> Size:
        """Its width and height."""
        return self.observation.screen.size

    def holds(self, bounds: Box) -> bool:
        """Whether it shows the whole of an element of the screen."""
        box = self.box
        return (
            box.left <= bounds.left
            and box.top <= bounds.top
            and bounds.right <= box.right
            and bounds.bottom <= box.bottom
        )


def cropped(screen_id: str, image: bytes, elements: Sequence[UIElement], box: Box) -> CroppedScreen:
    """A region of a screen; its pixels are cut when they are asked for."""
    size = Size(box.right - box.left, box.bottom - box.top)
    handle = ScreenHandle(content_id("crop", screen_id, list(box)), size, partial(_cut, image, box))
    region = CroppedScreen(box, Observation(handle, (), ""))
    inside = tuple(_moved(element, box) for element in elements if region.holds(element.bounds))
    return region._replace(observation=Observation(handle, inside, ""))


def _cut(image: bytes, box: Box) -> bytes:
    written = io.BytesIO()
    with Image.open(io.BytesIO(image)) as opened:
        opened.convert("RGB").crop(box).save(written, "PNG")
    return written.getvalue()


def _moved(element: UIElement, box: Box) -> UIElement:
    left, top, right, bottom = element.bounds
    bounds = Box(left - box.left, top - box.top, right - box.left, bottom - box.top)
    return element._replace(bounds=bounds)


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
