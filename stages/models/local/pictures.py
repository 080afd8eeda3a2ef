"""Screens as the pictures that a model in this process sees."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image

from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.pixel_budget import PixelBudget
from trajmill.stages.models.images import sent_image


def rgb_pictures(screens: Sequence[ScreenHandle], budget: PixelBudget, scale: float) -> list[Image.Image]:
    """The screens at the size at which they would be sent to a server.

    Raises:
        ModelFailure: an image does not decode.
    """
    sent = [sent_image(screen, budget, scale) for screen in screens]
    return [Image.open(io.BytesIO(image.data)).convert("RGB") for image in sent]
