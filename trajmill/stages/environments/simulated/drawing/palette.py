"""The colours of one screen: an index for each colour, and ramps between two colours for antialiased edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RAMP_LEVELS = 8
"""Steps from background to foreground; more cannot be distinguished, and fewer look rough."""
PALETTE_SIZE = 256


class Rgb(NamedTuple):
    """A colour, each part 0 to 255."""

    red: int
    green: int
    blue: int

    @property
    def is_light(self) -> bool:
        """Whether dark text is easier to read on it than light text."""
        return 299 * self.red + 587 * self.green + 114 * self.blue > 150_000


class Theme(NamedTuple):
    """The colours that all apps share."""

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
    """`#RRGGBB` as a colour."""
    return Rgb(int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16))


def mix(start: Rgb, end: Rgb, part: float) -> Rgb:
    """The colour between `start` (`part` 0) and `end` (`part` 1)."""
    return Rgb(
        round(start.red + (end.red - start.red) * part),
        round(start.green + (end.green - start.green) * part),
        round(start.blue + (end.blue - start.blue) * part),
    )


class Palette:
    """Gives each colour an index of an 8-bit image."""

    def __init__(self) -> None:
        self.colors: list[Rgb] = []
        self._index: dict[Rgb, int] = {}
        self._ramps: dict[tuple[Rgb, Rgb], NDArray[np.uint8]] = {}

    def index(self, color: Rgb) -> int:
        """The index of a colour; if all 256 are taken, that of the nearest colour."""
        known = self._index.get(color)
        if known is not None:
            return known
        if len(self.colors) < PALETTE_SIZE:
            found = len(self.colors)
            self.colors.append(color)
        else:
            found = min(range(PALETTE_SIZE), key=lambda at: _distance(self.colors[at], color))
        self._index[color] = found
        return found

    def ramp(self, background: Rgb, foreground: Rgb) -> NDArray[np.uint8]:
        """The indices of `RAMP_LEVELS` colours from one colour to the other."""
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


def _distance(first: Rgb, second: Rgb) -> int:
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))
