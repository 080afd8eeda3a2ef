"""Relations between boxes."""

from __future__ import annotations

from collections.abc import Iterable

from trajmill.schemas.geometry import Box


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
