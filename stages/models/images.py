"""Pictures as they are sent to a model: resized to its pixel budget, so that its coordinates can be read back.

A vision-language model of the Qwen family resizes each picture to whole patches within a pixel budget before it looks.
Whoever does that resizing beforehand knows the size in which the model's coordinates are written.
"""

from __future__ import annotations

import base64
import io
from typing import NamedTuple

from PIL import Image, UnidentifiedImageError

from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.pixel_budget import PixelBudget

_UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)
"""Pillow's errors for bytes that are no picture, or a broken or far too large one."""
_FAST_PNG = 1
"""zlib level. The bytes travel over a local network, so a fast encoding matters more than a small one."""


class SentImage(NamedTuple):
    """A picture in the form that is sent to a model."""

    data: bytes
    """The encoded picture."""
    media_type: str
    """`image/png`; the stored format if the stored picture already has the right size."""
    size: Size
    """Width and height of the picture in `data`."""

    @property
    def data_url(self) -> str:
        """The picture within a URL (RFC 2397)."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"


def sent_size(screen: Size, budget: PixelBudget, scale: float = 1.0) -> Size:
    """The size at which a screen is sent: its sides times `scale`, then the budget.

    Raises:
        ModelFailure: too elongated for the model.
    """
    return budget.fit(Size(*(max(1, round(side * scale)) for side in screen)))


def sent_image(screen: ScreenHandle, budget: PixelBudget, scale: float = 1.0) -> SentImage:
    """A screen at the size of `sent_size`; bytes that have that size already are passed on untouched.

    Decodes and encodes pixels, which takes tens of milliseconds: to be called outside an event loop.

    Raises:
        ModelFailure: the bytes are no picture, or one too elongated; the screen is named.
    """
    encoded = screen.encode()
    try:
        size = sent_size(screen.size, budget, scale)
        with Image.open(io.BytesIO(encoded)) as picture:
            if Size(*picture.size) != size:
                return SentImage(_resized(picture, size), "image/png", size)
            media_type = picture.get_format_mimetype() or "image/png"
            picture.verify()
            return SentImage(encoded, media_type, size)
    except ModelFailure as error:
        raise ModelFailure(f"screen {screen.screen_id}: {error}") from None
    except _UNREADABLE as error:
        raise ModelFailure(f"screen {screen.screen_id}: the image does not decode ({_line(error)})") from error


def _resized(picture: Image.Image, size: Size) -> bytes:
    resized = picture.convert("RGB").resize(size, Image.Resampling.BICUBIC)
    out = io.BytesIO()
    resized.save(out, "PNG", compress_level=_FAST_PNG)
    return out.getvalue()


def _line(error: BaseException) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "no known format"
    return " ".join(str(error).split())[:120] or type(error).__name__
