"""Names the colour in which an element is filled, from the pixels of its screen."""

from __future__ import annotations

import colorsys
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from PIL import Image

from trajmill.schemas.geometry import Box

_SAMPLES = 24
"""Pixels that are looked at along each axis of an element."""
_DOMINANT = 0.4
"""Share of an element's pixels that its colour must fill; text and icons have the rest."""
_HUES: Final = (
    (15, "red"),
    (48, "orange"),
    (70, "yellow"),
    (165, "green"),
    (200, "cyan"),
    (260, "blue"),
    (300, "purple"),
    (345, "pink"),
)


def fill_colours(image: bytes, boxes: Iterable[Box]) -> Mapping[Box, str]:
    """The names of the fill colours of some boxes; a box without a dominant colour is missing.

    Args:
        image: the encoded screenshot.
        boxes: within it, in its pixels.

    Raises:
        OSError: the image does not decode.
    """
    with Image.open(io.BytesIO(image)) as opened:
        pixels = opened.convert("RGB")
    found = {}
    for box in boxes:
        patch = pixels.crop(box).resize((_SAMPLES, _SAMPLES), Image.Resampling.NEAREST)
        raw = patch.tobytes()
        names = Counter(colour_name(*raw[at : at + 3]) for at in range(0, len(raw), 3))
        name, count = names.most_common(1)[0]
        if count >= _DOMINANT * names.total():
            found[box] = name
    return found


def colour_name(red: int, green: int, blue: int) -> str:
    """The common name of a colour, e.g. `dark green`."""
    hue, light, saturation = colorsys.rgb_to_hls(red / 255, green / 255, blue / 255)
    # Near white and black, a tiny difference of the channels is a large saturation.
    chroma = saturation * (1 - abs(2 * light - 1))
    if chroma < 0.1:
        return "black" if light < 0.15 else "dark grey" if light < 0.45 else "grey" if light < 0.93 else "white"
    name = next((name for limit, name in _HUES if hue * 360 < limit), "red")
    if name == "orange" and light < 0.35:
        return "brown"
    return f"dark {name}" if light < 0.3 else f"light {name}" if light > 0.8 else name
