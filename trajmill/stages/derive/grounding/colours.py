"""Names the colours of elements from the pixels of their screen."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trajmill.schemas.geometry import Box

_SAMPLES = 40
"""Pixels sampled along each axis of an element."""
_RING = 6
"""Width in pixels of the frame around an element, which shows the background."""
_SAME = 20
"""Largest difference of a channel between two pixels of one surface."""
_LEAST = 0.2
_DOMINANT = 0.65
"""Share of its colour in the pixels that differ from the background; text and borders have the rest."""
_STRIDE = 5
"""Stride along each axis over the pixels of a whole screen."""
_ALONE = 0.25
"""A colour is unique if the rest of the screen has less than this share of the element's own amount."""
_HUES: Final = (
    (15, "red"),
    (45, "orange"),
    (68, "yellow"),
    (155, "green"),
    (182, "teal"),
    (195, "cyan"),
    (258, "blue"),
    (295, "purple"),
    (322, "magenta"),
    (345, "pink"),
)
_DISPUTED: Final = frozenset({"teal", "magenta"})
"""Names that few people use alike."""
_ALSO: Final = {"teal": ("green", "cyan"), "magenta": ("pink", "purple"), "brown": ("brown", "orange")}
"""What else people call some colours."""
_DOUBT: Final = tuple(product((-5.0, 0.0, 5.0), (-0.04, 0.04), (-0.06, 0.06)))
"""Differences of hue, lightness and chroma within which people disagree on a name."""


class ElementColour(NamedTuple):
    name: str
    """E.g. `dark green`; empty if it has no clear one."""
    alone: bool
    """Whether hardly anything else on the screen has that colour, light or dark."""


def element_colours(image: bytes, boxes: Iterable[Box]) -> Mapping[Box, ElementColour]:
    """Return the colours of the contents of some boxes: the icon, not the wallpaper. Raises OSError for a bad image."""
    with Image.open(io.BytesIO(image)) as opened:
        screen = np.asarray(opened.convert("RGB")).astype(np.int32)
    named = {box: _own_colour(screen, box) for box in boxes}
    coarse = screen[::_STRIDE, ::_STRIDE]
    colours, places = _distinct(coarse.reshape(-1, 3))
    possible = [{basic for name in _possible_names(*colour) for basic in _basics(name)} for colour in colours.tolist()]
    shown = {
        basic: np.array([basic in names for names in possible])[places].reshape(coarse.shape[:2])
        for basic in {basic for name in named.values() if name for basic in _basics(name)}
    }

    def is_alone(basic: str, box: Box) -> bool:
        left, top, right, bottom = (max(0, -(-edge // _STRIDE)) for edge in box)
        own = int(shown[basic][top:bottom, left:right].sum())
        return int(shown[basic].sum()) - own < _ALONE * own

    return {
        box: ElementColour(name, bool(name) and all(is_alone(basic, box) for basic in _basics(name)))
        for box, name in named.items()
    }


@lru_cache(maxsize=65536)
def colour_name(red: int, green: int, blue: int) -> str:
    """Return the common name of a colour, e.g. `dark green`; empty where people disagree on it."""
    names = _possible_names(red, green, blue)
    return "" if len(names) > 1 or names & _DISPUTED else next(iter(names))


def _own_colour(screen: NDArray[np.int32], box: Box) -> str:
    """Return the name of the colour that dominates the pixels that differ from those around the box."""
    high, wide, _ = screen.shape
    left, top, right, bottom = max(0, box.left), max(0, box.top), min(wide, box.right), min(high, box.bottom)
    if left >= right or top >= bottom:
        return ""
    rows, columns = slice(max(0, top - _RING), bottom + _RING), slice(max(0, left - _RING), right + _RING)
    around = screen[rows.start : top, columns], screen[bottom : rows.stop, columns]
    beside = screen[top:bottom, columns.start : left], screen[top:bottom, right : columns.stop]
    behind = _distinct(np.concatenate([_sampled(strip) for strip in (*around, *beside)]))[0]
    inside = _sampled(screen[top:bottom, left:right])
    own = inside[np.abs(inside[:, None] - behind[None]).max(2).min(1, initial=255) > _SAME]
    amounts: dict[str, int] = {}
    colours, places = _distinct(own)
    for colour, count in zip(colours.tolist(), np.bincount(places, minlength=len(colours)).tolist(), strict=True):
        name = colour_name(*colour)
        amounts[name] = amounts.get(name, 0) + count
    most = max(amounts, key=amounts.__getitem__, default="")
    enough = max(_LEAST * len(inside), _DOMINANT * len(own))
    return most if most and amounts[most] >= enough else ""


def _distinct(pixels: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    # Many times as fast as `np.unique` of rows.
    codes, places = np.unique(pixels @ np.array([65536, 256, 1]), return_inverse=True)
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1), places


def _sampled(pixels: NDArray[np.int32]) -> NDArray[np.int32]:
    rows, columns = (np.linspace(0, size - 1, min(size, _SAMPLES)).astype(int) for size in pixels.shape[:2])
    sampled: NDArray[np.int32] = pixels[rows][:, columns].reshape(-1, 3)
    return sampled


def _basics(name: str) -> tuple[str, ...]:
    basic = name.rpartition(" ")[2]
    return _ALSO.get(basic, (basic,))


@lru_cache(maxsize=65536)
def _possible_names(red: int, green: int, blue: int) -> frozenset[str]:
    hue, light, saturation = colorsys.rgb_to_hls(red / 255, green / 255, blue / 255)
    # Near white and black, a tiny difference of the channels is a large saturation.
    chroma = saturation * (1 - abs(2 * light - 1))
    return frozenset(
        _name((hue * 360 + turn) % 360, light + brighter, chroma + fuller) for turn, brighter, fuller in _DOUBT
    )


def _name(hue: float, light: float, chroma: float) -> str:
    if chroma < 0.1:
        return "black" if light < 0.15 else "dark grey" if light < 0.4 else "grey" if light < 0.9 else "white"
    name = next((name for limit, name in _HUES if hue < limit), "red")
    if name == "orange" and light < 0.38:
        return "brown"
    if name == "pink" and light < 0.42:
        return "magenta"
    return name if name in _DISPUTED else f"dark {name}" if light < 0.32 else f"light {name}" if light > 0.8 else name
