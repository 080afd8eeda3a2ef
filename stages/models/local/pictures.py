"""Decodes screens into images for a model in this process."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image

from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.pixel_budget import PixelBudget
from trajmill.stages.models.images import sent_image


def rgb_pictures(screens: Sequence[ScreenHandle], budget: PixelBudget, scale: float) -> list[Image.Image]:
    """The screens, resized as for a server.

    Raises:
        ModelFailure: an image does not decode.
    """
    sent = [sent_image(screen, budget, scale) for screen in screens]
    return [Image.open(io.BytesIO(image.data)).convert("RGB") for image in sent]
