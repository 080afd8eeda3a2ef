"""The fonts of drawn screens: both come with packages, so that pixels are equal on every machine."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from io import BytesIO

from PIL import ImageFont

_NO_LETTER = "\U0010ffff"
"""No font has it; what is drawn for it is drawn for all that a font lacks."""
_TEST_SIZE = 16


def font_of(text: str, size: int) -> ImageFont.FreeTypeFont:
    """The font of a text: Pillow's own, or DejaVu Sans (Latin, Greek, Cyrillic, symbols) if that lacks a letter."""
    return _pillow(size) if all(map(_is_in_pillow, text)) else _dejavu(size)


def undrawn(text: str) -> str:
    """The letters of a text that no font has, each once, in order; they are drawn as boxes."""
    return "".join(dict.fromkeys(letter for letter in text if not _is_in_pillow(letter) and not _is_in_dejavu(letter)))


@lru_cache(maxsize=64)
def _pillow(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    # The basic layout engine is in every build.
    return font.font_variant(layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=64)
def _dejavu(size: int) -> ImageFont.FreeTypeFont:
    content = files(__package__).joinpath("fonts", "DejaVuSans.ttf").read_bytes()
    return ImageFont.truetype(BytesIO(content), size, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=4096)
def _is_in_pillow(letter: str) -> bool:
    return _has(_pillow(_TEST_SIZE), letter)


@lru_cache(maxsize=4096)
def _is_in_dejavu(letter: str) -> bool:
    return _has(_dejavu(_TEST_SIZE), letter)


def _has(font: ImageFont.FreeTypeFont, letter: str) -> bool:
    return letter.isspace() or bytes(font.getmask(letter)) != bytes(font.getmask(_NO_LETTER))
