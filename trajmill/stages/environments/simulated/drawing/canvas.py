"""A palette image; column 0 is the filter byte of each PNG scan line, edges are antialiased with colour ramps."""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from importlib.resources import files
from io import BytesIO
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from trajmill.schemas.geometry import Box, Size

RAMP_LEVELS = 8
"""Steps from background to foreground; more cannot be distinguished, and fewer look rough."""
PALETTE_SIZE = 256
_NO_LETTER = "\U0010ffff"
"""No font has it; what is drawn for it is drawn for all that a font lacks."""
_TEST_SIZE = 16
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PALETTE_COLOR_TYPE = 3
_COMPRESSION_LEVEL = 1
Pixels = NDArray[np.uint8]
"""Height x width: palette indices, or ramp levels (0 to `RAMP_LEVELS` - 1) of a mask."""

_ELLIPSIS = "..."
_SMALLEST_PART = 0.8
"""Text that is too wide is drawn smaller, down to this share of its size, then cut."""
_OVERSAMPLING = 4


class Rgb(NamedTuple):
    red: int
    green: int
    blue: int

    @property
    def is_light(self) -> bool:
        return 299 * self.red + 587 * self.green + 114 * self.blue > 150_000


class Theme(NamedTuple):
    page: Rgb
    surface: Rgb
    text: Rgb
    muted: Rgb
    line: Rgb


LIGHT = Theme(Rgb(244, 245, 248), Rgb(255, 255, 255), Rgb(29, 32, 38), Rgb(101, 108, 120), Rgb(214, 218, 225))
DARK = Theme(Rgb(18, 20, 24), Rgb(33, 36, 42), Rgb(236, 238, 242), Rgb(160, 167, 179), Rgb(62, 67, 77))
WHITE = Rgb(255, 255, 255)
BLACK = Rgb(0, 0, 0)


def parse_color(text: str) -> Rgb:
    return Rgb(int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16))


def mix(start: Rgb, end: Rgb, part: float) -> Rgb:
    return Rgb(*(round(first + (last - first) * part) for first, last in zip(start, end, strict=True)))


class Palette:
    def __init__(self) -> None:
        self.colors: list[Rgb] = []
        self._index: dict[Rgb, int] = {}
        self._ramps: dict[tuple[Rgb, Rgb], NDArray[np.uint8]] = {}

    def index(self, color: Rgb) -> int:
        """Return the index of a colour; if all 256 are taken, that of the nearest colour."""
        known = self._index.get(color)
        if known is not None:
            return known
        found = len(self.colors)
        if found < PALETTE_SIZE:
            self.colors.append(color)
        else:
            red, green, blue = color
            found = min(
                range(PALETTE_SIZE),
                key=lambda at: (
                    (self.colors[at].red - red) ** 2
                    + (self.colors[at].green - green) ** 2
                    + (self.colors[at].blue - blue) ** 2
                ),
            )
        self._index[color] = found
        return found

    def ramp(self, background: Rgb, foreground: Rgb) -> NDArray[np.uint8]:
        known = self._ramps.get((background, foreground))
        if known is None:
            last = RAMP_LEVELS - 1
            levels = [self.index(mix(background, foreground, step / last)) for step in range(RAMP_LEVELS)]
            known = self._ramps[background, foreground] = np.array(levels, np.uint8)
        return known

    def darken(self, part: float) -> None:
        """Darken all colours so far, and with them every pixel that is painted already."""
        self.colors = [mix(color, BLACK, part) for color in self.colors]
        self._index.clear()
        self._ramps.clear()


def font_of(text: str, size: int) -> ImageFont.FreeTypeFont:
    """Return the font of a text: Pillow's own, or DejaVu Sans (Latin, Greek, Cyrillic) if that lacks a letter."""
    return _font("pillow" if all(_draws("pillow", letter) for letter in text) else "dejavu", size)


def undrawn(text: str) -> str:
    """Return the letters of a text that no font has, each once, in order; they are drawn as boxes."""
    return "".join(dict.fromkeys(each for each in text if not _draws("pillow", each) and not _draws("dejavu", each)))


@lru_cache(maxsize=128)
def _font(name: Literal["pillow", "dejavu"], size: int) -> ImageFont.FreeTypeFont:
    # The basic layout engine is in every build.
    if name == "dejavu":
        content = files(__package__).joinpath("fonts", "DejaVuSans.ttf").read_bytes()
        return ImageFont.truetype(BytesIO(content), size, layout_engine=ImageFont.Layout.BASIC)
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    return font.font_variant(layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=8192)
def _draws(name: Literal["pillow", "dejavu"], letter: str) -> bool:
    font = _font(name, _TEST_SIZE)
    return letter.isspace() or bytes(font.getmask(letter)) != bytes(font.getmask(_NO_LETTER))


@lru_cache(maxsize=8192)
def _text_width(text: str, size: int) -> int:
    return round(font_of(text, size).getlength(text))


@lru_cache(maxsize=8192)
def _fitted(text: str, size: int, width: int) -> tuple[str, int]:
    smallest = max(8, int(size * _SMALLEST_PART))
    while size > smallest and _text_width(text, size) > width:
        size -= 1
    if _text_width(text, size) > width:
        while text and _text_width(text + _ELLIPSIS, size) > width:
            text = text[:-1]
        text = text.rstrip() + _ELLIPSIS if text else ""
    return text, size


def _levels(coverage: Image.Image) -> Pixels:
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
    def __init__(self, size: Size, background: Rgb) -> None:
        self.size = size
        self.palette = Palette()
        self._scan_lines: Pixels = np.full((size.height, size.width + 1), self.palette.index(background), np.uint8)
        self._scan_lines[:, 0] = 0
        self._pixels = self._scan_lines[:, 1:]

    def encode(self) -> bytes:
        header = struct.pack(">IIBBBBB", self.size.width, self.size.height, 8, _PALETTE_COLOR_TYPE, 0, 0, 0)
        palette = bytes(part for color in self.palette.colors for part in color)
        pixels = zlib.compress(self._scan_lines.data, _COMPRESSION_LEVEL)
        chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", pixels), (b"IEND", b""))
        return _SIGNATURE + b"".join(
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(name)))
            for name, data in chunks
        )

    def color_at(self, x: int, y: int) -> Rgb:
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
        within = clip or Box(0, 0, self.size.width, self.size.height)
        left, top = max(0, within.left - x, -x), max(0, within.top - y, -y)
        part = mask[top : max(top, within.bottom - y), left : max(left, within.right - x)]
        target = self._pixels[y + top : y + top + part.shape[0], x + left : x + left + part.shape[1]]
        part = part[: target.shape[0], : target.shape[1]]
        np.copyto(target, ramp[part], where=part != 0)


def inset(box: Box, horizontal: int, vertical: int | None = None) -> Box:
    tall = horizontal if vertical is None else vertical
    return Box(box.left + horizontal, box.top + tall, box.right - horizontal, box.bottom - tall)


def square(box: Box, side: int, left: int) -> Box:
    """Return a square in the vertical middle of a box, beginning at `left`."""
    top = (box.top + box.bottom - side) // 2
    return Box(left, top, left + side, top + side)


class Shape(NamedTuple):
    """One drawn thing. A shape that is an accessibility element has exactly the element's box."""

    kind: str
    """status_bar, app_bar, icon, heading, text, value, list_item, button, primary_button, danger_button, radio,
    checkbox, switch, label, stepper_button, field, search, keyboard, key, dialog, dim, menu_bar, menu, menu_item,
    window, taskbar, badge, scroll_bar, banner."""
    box: Box
    text: str = ""
    """Text; its lines are separated by newlines and share the height of the box."""
    note: str = ""
    """Smaller second text: below the text of a `list_item`, at the right end of a `label` or a bar. For a `field` or
    `search` it is the typed text, because `text` is the hint."""
    state: str = ""
    """`on`, `focused`, `disabled` or empty."""
    color: str = ""
    """`#RRGGBB` for kinds with their own colour (icons, bars); else empty."""


class Scene(NamedTuple):
    """All shapes of a screen, in the order of painting; a `dim` darkens everything before it."""

    size: Size
    accent: str
    dark: bool
    shapes: tuple[Shape, ...]
