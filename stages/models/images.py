"""Pictures as they are sent to a model: resized to its pixel budget, so that its coordinates can be read back.

A vision-language model of the Qwen family resizes each picture to whole patches within a pixel budget before it looks.
Whoever does that resizing beforehand knows the size in which the model's coordinates are written.
"""

from __future__ import annotations

import base64
import io
import math
from typing import Final, NamedTuple

from PIL import Image, UnidentifiedImageError
from pydantic import Field

from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.record import Record

_MOST_ELONGATED = 200
"""Ratio of the sides over which the model's own processor refuses a picture."""
_UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)
"""What Pillow raises for bytes that are no picture, or a broken or absurdly large one."""
_FAST_PNG = 1
"""zlib level: the bytes travel once over a local network, so time counts for more than size."""


class PixelBudget(Record):
    """The sizes that a vision-language model takes: sides in whole patches, area between two bounds."""

    factor: int = Field(gt=0)
    """Sides are multiples of it: patch size times merge size of the vision tower."""
    min_pixels: int = Field(gt=0)
    max_pixels: int = Field(gt=0)

    def fit(self, size: Size) -> Size:
        """The size that the model sees of a picture: the smart-resize rule of the Qwen vision-language models.

        Sides are rounded to multiples of `factor` (halves to the even multiple); a picture out of bounds is scaled,
        its aspect kept, so that the rounded sides are within them. A size that fits stays as it is.

        Raises:
            ModelFailure: the picture is too elongated for the model.
        """
        if min(size) < 1 or max(size) > _MOST_ELONGATED * min(size):
            raise ModelFailure(f"{size.width}x{size.height} pixels: too elongated a picture for the model")
        # The order of the operations is that of the models' own processor: another one rounds differently.
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
"""Qwen2.5-VL and its descendants (UI-TARS 1.5, OpenCUA)."""
GUI_OWL: Final = PixelBudget(factor=28, min_pixels=4 * 28 * 28, max_pixels=12800 * 28 * 28)
"""GUI-Owl 7B and 32B: Qwen2.5-VL with a lower upper bound."""
QWEN3_VL: Final = PixelBudget(factor=32, min_pixels=64 * 32 * 32, max_pixels=16384 * 32 * 32)
"""Qwen3-VL and its descendants (GUI-Owl 1.5)."""
ANY_SIZE: Final = PixelBudget(factor=1, min_pixels=1, max_pixels=2**40)
"""A model that takes pictures as they are."""


class SentImage(NamedTuple):
    """A picture as it goes to a model."""

    data: bytes
    """The encoded picture."""
    media_type: str
    """`image/png`, unless the stored picture had the right size already and is of another format."""
    size: Size
    """What `data` decodes to."""

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
