"""Coordinate spaces of the wire formats, sizes of images, and the conversion to pixels of the stored screenshot."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final, NamedTuple

from pydantic import Field

from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Point, Size
from trajmill.schemas.record import Record


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
_MOST_ELONGATED = 200
"""The model's own processor refuses an image whose sides have a larger ratio."""
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


class PixelBudget(Record):
    """The sizes that a vision-language model supports: sides of whole patches, an area between two bounds."""

    factor: int = Field(gt=0)
    """Sides are multiples of this: patch size times merge size of the vision tower."""
    min_pixels: int = Field(gt=0)
    max_pixels: int = Field(gt=0)

    def fit(self, size: Size) -> Size:
        """The size at which the model sees an image, by the smart-resize rule of the Qwen vision-language models.

        Sides are rounded to multiples of `factor` (halves to the even multiple). If the area is out of bounds, the
        image is scaled without changing its aspect ratio, so that the rounded sides are within them. Raises
        ModelFailure if the image is too elongated for the model, or no size of whole patches is within the bounds.
        """
        if min(size) < 1 or max(size) > _MOST_ELONGATED * min(size):
            raise ModelFailure(f"{size.width}x{size.height} pixels: too elongated a picture for the model")
        fitted = self._scaled(size)
        area = fitted.width * fitted.height
        if not self.min_pixels <= area <= self.max_pixels:
            raise ModelFailure(
                f"{size.width}x{size.height} pixels: would be sent as {fitted.width}x{fitted.height}, "
                f"and the model takes {self.min_pixels} to {self.max_pixels} pixels in all"
            )
        return fitted

    def _scaled(self, size: Size) -> Size:
        # The order of the operations is that of the models' own processor; another order rounds differently.
        patch, (width, height) = self.factor, size
        rounded = Size(round(width / patch) * patch, round(height / patch) * patch)
        if rounded.width * rounded.height > self.max_pixels:
            shrink = math.sqrt(height * width / self.max_pixels)
            return Size(
                max(patch, math.floor(width / shrink / patch) * patch),
                max(patch, math.floor(height / shrink / patch) * patch),
            )
        if rounded.width * rounded.height < self.min_pixels:
            grow = math.sqrt(self.min_pixels / (height * width))
            return Size(math.ceil(width * grow / patch) * patch, math.ceil(height * grow / patch) * patch)
        return rounded


QWEN2_5_VL: Final = PixelBudget(factor=28, min_pixels=4 * 28 * 28, max_pixels=16384 * 28 * 28)
"""Qwen2.5-VL and its descendants (OpenCUA)."""
SMALL_QWEN2_5_VL: Final = PixelBudget(factor=28, min_pixels=4 * 28 * 28, max_pixels=69 * 28 * 28)
"""A Qwen2.5-VL that a laptop trains: a phone's screen in 66 tokens."""
UI_TARS: Final = PixelBudget(factor=28, min_pixels=100 * 28 * 28, max_pixels=16384 * 28 * 28)
"""UI-TARS 1.5: Qwen2.5-VL with a higher lower bound."""
GUI_OWL: Final = PixelBudget(factor=28, min_pixels=4 * 28 * 28, max_pixels=12800 * 28 * 28)
"""GUI-Owl 7B and 32B: Qwen2.5-VL with a lower upper bound."""
QWEN3_VL: Final = PixelBudget(factor=32, min_pixels=64 * 32 * 32, max_pixels=16384 * 32 * 32)
"""Qwen3-VL and its descendants (GUI-Owl 1.5)."""
ANY_SIZE: Final = PixelBudget(factor=1, min_pixels=1, max_pixels=2**40)
"""A model that supports images of any size."""
