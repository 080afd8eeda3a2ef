"""Points, boxes and sizes, always in whole pixels of the stored screenshot."""

from __future__ import annotations

from typing import NamedTuple


class Size(NamedTuple):
    """Width and height of a screen, in pixels."""

    width: int
    height: int


class Point(NamedTuple):
    """A pixel position; the origin is the top left corner."""

    x: int
    y: int


class Box(NamedTuple):
    """A rectangle in pixels; `right` and `bottom` are exclusive."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def center(self) -> Point:
        """The middle of the box, rounded down to whole pixels."""
        return Point((self.left + self.right) // 2, (self.top + self.bottom) // 2)

    @property
    def area(self) -> int:
        """Area in square pixels, 0 for an empty box."""
        return max(0, self.right - self.left) * max(0, self.bottom - self.top)

    def contains(self, x: int, y: int) -> bool:
        return self.left <= x < self.right and self.top <= y < self.bottom

    def within(self, outer: Box) -> Box:
        """The part inside another box; its area is 0 if nothing is inside."""
        return Box(*map(max, self[:2], outer[:2]), *map(min, self[2:], outer[2:]))

    def moved(self, across: int, down: int) -> Box:
        return Box(self.left + across, self.top + down, self.right + across, self.bottom + down)
