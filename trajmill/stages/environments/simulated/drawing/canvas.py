"""A palette image with the drawing operations of flat user interfaces; edges are antialiased with colour ramps.

The pixels are colour indices. Column 0 stays 0, because it is the filter byte of each PNG scan line; so the finished
image is encoded without a copy.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from trajmill.schemas.geometry import Box, Size
from trajmill.stages.environments.simulated.drawing.font import font_of
from trajmill.stages.environments.simulated.drawing.palette import RAMP_LEVELS, Palette, Rgb
from trajmill.stages.environments.simulated.drawing.png import encode_png

Pixels = NDArray[np.uint8]
"""Height x width: palette indices, or ramp levels (0 to `RAMP_LEVELS` - 1) of a mask."""

_ELLIPSIS = "..."
_SMALLEST_PART = 0.8
"""Text that is too wide is drawn smaller, down to this share of its size, then cut."""
_OVERSAMPLING = 4


@lru_cache(maxsize=8192)
def _text_width(text: str, size: int) -> int:
    return round(font_of(text, size).getlength(text))


@lru_cache(maxsize=8192)
def _fitted(text: str, size: int, width: int) -> tuple[str, int]:
    """The text and size that fit into `width` pixels."""
    smallest = max(8, int(size * _SMALLEST_PART))
    while size > smallest and _text_width(text, size) > width:
        size -= 1
    if _text_width(text, size) > width:
        while text and _text_width(text + _ELLIPSIS, size) > width:
            text = text[:-1]
        text = text.rstrip() + _ELLIPSIS if text else ""
    return text, size


def _levels(coverage: Image.Image) -> Pixels:
    """A mask of ramp levels from a mask of 0 to 255."""
    return ((np.asarray(coverage, np.uint16) * (RAMP_LEVELS - 1) + 127) // 255).astype(np.uint8)


@lru_cache(maxsize=2048)
def _text_mask(text: str, size: int) -> Pixels:
    font = font_of(text, size)
    ascent, descent = font.getmetrics()
    mask = Image.new("L", (max(1, _text_width(text, size)), ascent + descent), 0)
    ImageDraw.Draw(mask).text((0, 0), text, fill=255, font=font)
    return _levels(mask)


@lru_cache(maxsize=256)
def _corner_mask(radius: int, right: bool, bottom: bool) -> Pixels:
    wide = radius * _OVERSAMPLING
    drawn = Image.new("L", (wide, wide), 0)
    left, top = (-wide if right else 0), (-wide if bottom else 0)
    ImageDraw.Draw(drawn).ellipse((left, top, left + 2 * wide - 1, top + 2 * wide - 1), fill=255)
    return _levels(drawn.resize((radius, radius), Image.Resampling.BOX))


@lru_cache(maxsize=64)
def _stroke_mask(points: tuple[tuple[float, float], ...], size: int, width: int) -> Pixels:
    wide = size * _OVERSAMPLING
    mask = Image.new("L", (wide, wide), 0)
    ImageDraw.Draw(mask).line([(x * wide, y * wide) for x, y in points], 255, width * _OVERSAMPLING, "curve")
    return _levels(mask.resize((size, size), Image.Resampling.BOX))


class Canvas:
    """One screen while it is painted."""

    def __init__(self, size: Size, background: Rgb) -> None:
        self.size = size
        self.palette = Palette()
        self._scan_lines: Pixels = np.full((size.height, size.width + 1), self.palette.index(background), np.uint8)
        self._scan_lines[:, 0] = 0
        self._pixels = self._scan_lines[:, 1:]

    def encode(self) -> bytes:
        """The PNG bytes of the image."""
        return encode_png(self.size, self._scan_lines.data, self.palette.colors)

    def color_at(self, x: int, y: int) -> Rgb:
        """The colour of a pixel, or of the nearest one on the screen."""
        index = self._pixels[min(max(y, 0), self.size.height - 1), min(max(x, 0), self.size.width - 1)]
        return self.palette.colors[int(index)]

    def fill(self, box: Box, color: Rgb) -> None:
        """Paint a rectangle; parts outside the screen are left out."""
        top, left = max(box.top, 0), max(box.left, 0)
        self._pixels[top : max(box.bottom, top), left : max(box.right, left)] = self.palette.index(color)

    def rounded(self, box: Box, radius: int, color: Rgb, under: Rgb | None = None) -> None:
        """Paint a rectangle with round corners over a plain background, by default the colour at its first pixel."""
        radius = min(radius, (box.right - box.left) // 2, (box.bottom - box.top) // 2)
        if radius < 1:
            self.fill(box, color)
            return
        ramp = self.palette.ramp(self.color_at(box.left, box.top) if under is None else under, color)
        self.fill(inset(box, 0, radius), color)
        self.fill(Box(box.left + radius, box.top, box.right - radius, box.top + radius), color)
        self.fill(Box(box.left + radius, box.bottom - radius, box.right - radius, box.bottom), color)
        for right in (False, True):
            for bottom in (False, True):
                x = box.right - radius if right else box.left
                y = box.bottom - radius if bottom else box.top
                self._stamp(_corner_mask(radius, right, bottom), x, y, ramp)

    def outlined(self, box: Box, radius: int, line: Rgb, inside: Rgb, width: int) -> None:
        """Paint a rectangle with round corners and a border."""
        self.rounded(box, radius, line)
        self.rounded(inset(box, width), radius - width, inside, line)

    def text(self, box: Box, text: str, size: int, color: Rgb, align: str = "left") -> None:
        """Write one line, centred vertically, over a plain background; `align` is left, center or right."""
        text, size = _fitted(text, size, box.right - box.left)
        if not text:
            return
        ramp = self.palette.ramp(self.color_at((box.left + box.right) // 2, box.top), color)
        mask = _text_mask(text, size)
        tall, wide = mask.shape
        spare = box.right - box.left - wide
        x = box.left + {"left": 0, "center": spare // 2, "right": spare}[align]
        self._stamp(mask, x, (box.top + box.bottom - tall + size // 12) // 2, ramp, box)

    def strokes(self, box: Box, points: tuple[tuple[float, float], ...], width: int, color: Rgb) -> None:
        """Draw a line through points, which are shares (0 to 1) of a square box, over a plain background."""
        ramp = self.palette.ramp(self.color_at(box.left, box.top), color)
        self._stamp(_stroke_mask(points, box.right - box.left, width), box.left, box.top, ramp)

    def _stamp(self, mask: Pixels, x: int, y: int, ramp: Pixels, clip: Box | None = None) -> None:
        """Paint the area of a mask with a ramp; parts outside the screen or `clip` are left out."""
        within = clip or Box(0, 0, self.size.width, self.size.height)
        left, top = max(0, within.left - x, -x), max(0, within.top - y, -y)
        part = mask[top : max(top, within.bottom - y), left : max(left, within.right - x)]
        target = self._pixels[y + top : y + top + part.shape[0], x + left : x + left + part.shape[1]]
        part = part[: target.shape[0], : target.shape[1]]
        np.copyto(target, ramp[part], where=part != 0)


def inset(box: Box, horizontal: int, vertical: int | None = None) -> Box:
    """The box made smaller on all sides."""
    tall = horizontal if vertical is None else vertical
    return Box(box.left + horizontal, box.top + tall, box.right - horizontal, box.bottom - tall)
