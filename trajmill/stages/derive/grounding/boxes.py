"""Relations between boxes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from PIL import Image

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import content_id


def overlap(box: Box, others: Iterable[Box]) -> float:
    """Return the largest intersection over union of a box with other boxes, 0 without any."""
    shares = [0.0]
    for other in others:
        left, top = max(box.left, other.left), max(box.top, other.top)
        shared = Box(left, top, min(box.right, other.right), min(box.bottom, other.bottom)).area
        joined = box.area + other.area - shared
        shares.append(shared / joined if joined else 0.0)
    return max(shares)


def holds(outer: Box, inner: Box) -> bool:
    return (
        outer.left <= inner.left
        and outer.top <= inner.top
        and inner.right <= outer.right
        and inner.bottom <= outer.bottom
    )


def around(boxes: Iterable[Box]) -> Box:
    left, top, right, bottom = zip(*boxes, strict=True)
    return Box(min(left), min(top), max(right), max(bottom))


def relative(box: Box, origin: Box) -> Box:
    """Return a box in the pixels of the picture that was cut from `origin`."""
    across, down = origin.left, origin.top
    return Box(box.left - across, box.top - down, box.right - across, box.bottom - down)


def is_large(box: Box, smallest: int) -> bool:
    return box.right - box.left >= smallest and box.bottom - box.top >= smallest


_MARGIN = 8
"""Pixels around the elements of a region, where the screen has them."""


def cropped(screen_id: str, image: bytes, elements: Sequence[UIElement], box: Box) -> Observation:
    def cut() -> bytes:
        written = io.BytesIO()
        with Image.open(io.BytesIO(image)) as opened:
            opened.convert("RGB").crop(box).save(written, "PNG")
        return written.getvalue()

    size = Size(box.right - box.left, box.bottom - box.top)
    inside = (each._replace(bounds=relative(each.bounds, box)) for each in elements if holds(box, each.bounds))
    return Observation(ScreenHandle(content_id("crop", screen_id, list(box)), size, cut), tuple(inside), "")


def regions(elements: Sequence[UIElement], size: Size, most: int) -> list[Box]:
    """Return boxes of at most `most` elements each where gaps allow it, in reading order; none cuts an element."""
    found = []
    for part in _split([element.bounds for element in elements if element.bounds.area], most):
        left, top, right, bottom = around(part)
        found.append(
            Box(
                max(0, left - _MARGIN),
                max(0, top - _MARGIN),
                min(size.width, right + _MARGIN),
                min(size.height, bottom + _MARGIN),
            )
        )
    return found


class _Gap(NamedTuple):
    """A strip without elements across a region."""

    width: int
    middle: int
    vertical: bool


def _split(boxes: list[Box], most: int) -> list[list[Box]]:
    gaps = []
    if len(boxes) > most:
        gaps = [
            *(_Gap(width, middle, False) for width, middle in _gaps([(box.top, box.bottom) for box in boxes])),
            *(_Gap(width, middle, True) for width, middle in _gaps([(box.left, box.right) for box in boxes])),
        ]
    gap = max(gaps, default=None, key=lambda gap: (gap.width, not gap.vertical, -gap.middle))
    if gap is None:
        return [boxes] if boxes else []
    first = [box for box in boxes if (box.right if gap.vertical else box.bottom) <= gap.middle]
    second = [box for box in boxes if box not in first]
    return [*_split(first, most), *_split(second, most)]


def _gaps(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found, end = [], None
    for low, high in sorted(spans):
        if end is not None and low > end:
            found.append((low - end, (low + end) // 2))
        end = high if end is None else max(end, high)
    return found
