"""A palette image with the few drawing operations that flat user interfaces need, antialiased through colour ramps.

The pixels are indices, and column 0 stays 0: it is the filter byte of each PNG scan line, so the finished image is
encoded without being copied.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from schemas.geometry import Box, Size
from stages.environments.simulated.palette import Palette, Rgb
from stages.environments.simulated.png import encode_png

_ELLIPSIS = "..."
_SMALLEST_PART = 0.8
"""Text that is too wide is set smaller down to this part of its size, then cut."""
_OVERSAMPLING = 4


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont:
    """The font inside Pillow's wheel, with its own layout engine: the same pixels on every machine."""
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    return font.font_variant(layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=8192)
def _text_width(text: str, size: int) -> int:
    return round(_font(size).getlength(text))


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


@lru_cache(maxsize=2048)
def _text_mask(text: str, size: int) -> Image.Image:
    font = _font(size)
    ascent, descent = font.getmetrics()
    mask = Image.new("L", (max(1, _text_width(text, size)), ascent + descent), 0)
    ImageDraw.Draw(mask).text((0, 0), text, fill=255, font=font)
    return mask


@lru_cache(maxsize=2048)
def _text_tile(text: str, size: int, ramp: bytes) -> Image.Image:
    return _text_mask(text, size).point(list(ramp))


class _Corner(NamedTuple):
    tile: Image.Image
    mask: Image.Image
    """Set wherever the corner is covered at all."""


@lru_cache(maxsize=512)
def _corner(radius: int, right: bool, bottom: bool, ramp: bytes) -> _Corner:
    wide = radius * _OVERSAMPLING
    drawn = Image.new("L", (wide, wide), 0)
    left, top = (-wide if right else 0), (-wide if bottom else 0)
    ImageDraw.Draw(drawn).ellipse((left, top, left + 2 * wide - 1, top + 2 * wide - 1), fill=255)
    coverage = drawn.resize((radius, radius), Image.Resampling.BOX)
    return _Corner(coverage.point(list(ramp)), coverage.point([0] + [255] * 255))


@lru_cache(maxsize=64)
def _stroke_tile(points: tuple[tuple[float, float], ...], size: int, width: int, ramp: bytes) -> Image.Image:
    wide = size * _OVERSAMPLING
    mask = Image.new("L", (wide, wide), 0)
    ImageDraw.Draw(mask).line([(x * wide, y * wide) for x, y in points], 255, width * _OVERSAMPLING, "curve")
    return mask.resize((size, size), Image.Resampling.BOX).point(list(ramp))


class Canvas:
    """One screen while it is painted."""

    def __init__(self, size: Size, background: Rgb) -> None:
        self.size = size
        self.palette = Palette()
        self._image = Image.new("L", (size.width + 1, size.height), self.palette.index(background))
        self._image.paste(0, (0, 0, 1, size.height))

    def encode(self) -> bytes:
        """The PNG bytes of what has been painted."""
        return encode_png(self.size, self._image.tobytes(), self.palette.colors)

    def color_at(self, x: int, y: int) -> Rgb:
        """The colour of a pixel."""
        index = self._image.getpixel((min(max(x, 0), self.size.width - 1) + 1, min(max(y, 0), self.size.height - 1)))
        assert isinstance(index, int)
        return self.palette.colors[index]

    def fill(self, box: Box, color: Rgb) -> None:
        """Paint a rectangle; what lies outside the screen is left out."""
        left, right = max(box.left, 0), min(box.right, self.size.width)
        top, bottom = max(box.top, 0), min(box.bottom, self.size.height)
        if left < right and top < bottom:
            self._image.paste(self.palette.index(color), (left + 1, top, right + 1, bottom))

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
                corner = _corner(radius, right, bottom, ramp)
                x = box.right - radius if right else box.left
                y = box.bottom - radius if bottom else box.top
                self._image.paste(corner.tile, (x + 1, y), corner.mask)

    def outlined(self, box: Box, radius: int, line: Rgb, inside: Rgb, width: int) -> None:
        """Paint a rectangle with round corners and a border."""
        self.rounded(box, radius, line)
        self.rounded(inset(box, width), radius - width, inside, line)

    def text(self, box: Box, text: str, size: int, color: Rgb, align: str = "left") -> None:
        """Write one line, centred vertically, over a plain background; `align` is left, center or right."""
        text, size = _fitted(text, size, box.right - box.left)
        if not text:
            return
        background = self.color_at((box.left + box.right) // 2, box.top)
        tile = _text_tile(text, size, self.palette.ramp(background, color))
        spare = box.right - box.left - tile.width
        x = box.left + {"left": 0, "center": spare // 2, "right": spare}[align]
        self._tile(tile, x, (box.top + box.bottom - tile.height + size // 12) // 2, box)

    def strokes(self, box: Box, points: tuple[tuple[float, float], ...], width: int, color: Rgb) -> None:
        """Draw a line through points given as parts (0 to 1) of a square box, over a plain background."""
        ramp = self.palette.ramp(self.color_at(box.left, box.top), color)
        self._tile(_stroke_tile(points, box.right - box.left, width, ramp), box.left, box.top)

    def _tile(self, tile: Image.Image, x: int, y: int, clip: Box | None = None) -> None:
        within = clip or Box(0, 0, self.size.width, self.size.height)
        left, top = max(0, within.left - x, -x), max(0, within.top - y, -y)
        right = min(tile.width, within.right - x, self.size.width - x)
        bottom = min(tile.height, within.bottom - y, self.size.height - y)
        if left >= right or top >= bottom:
            return
        if (left, top, right, bottom) != (0, 0, tile.width, tile.height):
            tile = tile.crop((left, top, right, bottom))
        self._image.paste(tile, (x + left + 1, y + top))


def inset(box: Box, horizontal: int, vertical: int | None = None) -> Box:
    """The box made smaller on all sides."""
    tall = horizontal if vertical is None else vertical
    return Box(box.left + horizontal, box.top + tall, box.right - horizontal, box.bottom - tall)
