"""Decodes screens into images for a model in this process."""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from PIL import Image

from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.pixel_budget import PixelBudget
from trajmill.stages.models.images import sent_image

MOST_PIXELS: Final = 64_000_000
"""Pixels that `RecentPictures` keeps: 200 MB."""


def rgb_pictures(screens: Sequence[ScreenHandle], budget: PixelBudget, scale: float) -> list[Image.Image]:
    """The screens, resized as for a server.

    Raises:
        ModelFailure: an image does not decode.
    """
    sent = [sent_image(screen, budget, scale) for screen in screens]
    return [Image.open(io.BytesIO(image.data)).convert("RGB") for image in sent]


class RecentPictures:
    """Reads screens as `rgb_pictures` does, and keeps those that were read last.

    A training meets each screen in every pass, and decoding it takes longer than a small model's update.
    """

    def __init__(self, budget: PixelBudget) -> None:
        """Keep nothing yet; pictures have the size that the budget gives them."""
        self._budget = budget
        self._pictures: OrderedDict[tuple[str, Size, float], Image.Image] = OrderedDict()
        self._pixels = 0

    def read(self, screens: Sequence[ScreenHandle], scale: float) -> list[Image.Image]:
        """The screens at the size at which they would be sent to a server; the pictures are not to be changed.

        Raises:
            ModelFailure: an image does not decode.
        """
        return [self._read(screen, scale) for screen in screens]

    def _read(self, screen: ScreenHandle, scale: float) -> Image.Image:
        key = screen.screen_id, screen.size, scale
        found = self._pictures.pop(key, None)
        if found is None:
            (found,) = rgb_pictures([screen], self._budget, scale)
            self._pixels += found.width * found.height
        self._pictures[key] = found
        while self._pixels > MOST_PIXELS and len(self._pictures) > 1:
            _, oldest = self._pictures.popitem(last=False)
            self._pixels -= oldest.width * oldest.height
        return found
