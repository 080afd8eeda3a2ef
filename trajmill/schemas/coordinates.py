"""Coordinate spaces of the wire formats, and the conversion to pixels of the stored screenshot."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from trajmill.schemas.geometry import Point, Size


class CoordinateSpace(StrEnum):
    """The form in which a model or a trainer writes positions on the screen."""

    RESIZED_PIXELS = "resized_pixels"
    """Absolute pixels of a resized copy of the screenshot (GUI-Owl v3, Qwen2.5-VL)."""
    PER_MILLE = "per_mille"
    """0 to 1000 on both axes (GUI-Owl 1.5)."""
    PER_999 = "per_999"
    """0 to 999 on both axes (Qwen3-VL cookbook)."""
    PATCHES = "patches"
    """Patches of 14 pixels of a resized copy: coarse enough for a token each (read-aloud)."""
    UNIT = "unit"
    """0 to 1 as a fraction of the screen (OpenCUA)."""


_PATCH = 14
_EXTENT = {CoordinateSpace.PER_MILLE: 1000.0, CoordinateSpace.PER_999: 999.0, CoordinateSpace.UNIT: 1.0}


class CoordinateFrame(NamedTuple):
    """A coordinate space for one stored screenshot and, if it matters, its resized copy."""

    space: CoordinateSpace
    screen: Size
    resized: Size

    @property
    def extent(self) -> tuple[float, float]:
        """The largest position in this space, on each axis."""
        if self.space is CoordinateSpace.RESIZED_PIXELS:
            return float(self.resized.width), float(self.resized.height)
        if self.space is CoordinateSpace.PATCHES:
            return self.resized.width / _PATCH, self.resized.height / _PATCH
        return _EXTENT[self.space], _EXTENT[self.space]

    def to_pixels(self, x: float, y: float) -> Point:
        """Convert a position of this space to stored pixels, clamped to the screen."""
        wide, high = self.extent
        return Point(
            min(max(round(x / wide * self.screen.width), 0), self.screen.width - 1),
            min(max(round(y / high * self.screen.height), 0), self.screen.height - 1),
        )

    def from_pixels(self, point: Point) -> tuple[float, float]:
        """Convert stored pixels to this space; whole numbers except in `UNIT`.

        Rounding to whole numbers loses at most half a unit of the space on each axis.
        """
        wide, high = self.extent
        x, y = point.x / self.screen.width * wide, point.y / self.screen.height * high
        if self.space is CoordinateSpace.UNIT:
            return round(x, 4), round(y, 4)
        return float(round(x)), float(round(y))


def native_frame(screen: Size) -> CoordinateFrame:
    """The frame whose coordinates are pixels of the stored screenshot."""
    return CoordinateFrame(CoordinateSpace.RESIZED_PIXELS, screen, screen)
