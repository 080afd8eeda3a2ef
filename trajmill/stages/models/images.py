"""Resizes images to a model's pixel budget before they are sent.

A vision-language model of the Qwen family resizes each image to whole patches within a pixel budget. An image resized
beforehand keeps its size, so the model's coordinates can be converted back.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import NamedTuple

from PIL import Image, UnidentifiedImageError

from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle

_UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)
"""Pillow's errors for bytes that are no image, or a broken or far too large one."""
_FAST_PNG = 1
"""zlib level. The bytes travel over a local network, so a fast encoding matters more than a small one."""


class SentImage(NamedTuple):
    data: bytes
    media_type: str
    """`image/png`, or the stored format if the stored image already has the right size."""
    size: Size


def sent_size(screen: Size, budget: PixelBudget, scale: float = 1.0) -> Size:
    """Scale width and height, then cut them to the budget. Raises ModelFailure for a screen that is too elongated."""
    return budget.fit(Size(*(max(1, round(side * scale)) for side in screen)))


@lru_cache(maxsize=256)  # Votes and later steps show a screen again: 14 % of the CPU time where a model judges.
def sent_image(screen: ScreenHandle, budget: PixelBudget, scale: float = 1.0) -> SentImage:
    """Return a screen at the size of `sent_size`; the bytes of an image that already has that size are not changed.

    Decoding and encoding take tens of milliseconds, so call it outside the event loop. Raises ModelFailure, which names
    the screen, if the bytes are no image, or it is too elongated.
    """
    encoded = screen.encode()
    try:
        size = sent_size(screen.size, budget, scale)
        with Image.open(io.BytesIO(encoded)) as picture:
            if Size(*picture.size) != size:
                resized, out = picture.convert("RGB").resize(size, Image.Resampling.BICUBIC), io.BytesIO()
                resized.save(out, "PNG", compress_level=_FAST_PNG)
                return SentImage(out.getvalue(), "image/png", size)
            media_type = picture.get_format_mimetype() or "image/png"
            picture.verify()
            return SentImage(encoded, media_type, size)
    except ModelFailure as error:
        raise ModelFailure(f"screen {screen.screen_id}: {error}") from None
    except _UNREADABLE as error:
        line = " ".join(str(error).split())[:120] or type(error).__name__
        reason = "no known format" if isinstance(error, UnidentifiedImageError) else line
        raise ModelFailure(f"screen {screen.screen_id}: the image does not decode ({reason})") from error
