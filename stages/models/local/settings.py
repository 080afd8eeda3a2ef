"""What must be known of a model in this process."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.pixel_budget import ANY_SIZE, PixelBudget
from trajmill.schemas.record import Record


class LocalSettings(Record):
    """A model in a folder."""

    folder: Path
    """Weights, tokenizer and settings in Hugging Face's layout."""
    budget: PixelBudget = ANY_SIZE
    """Sizes of pictures that the model takes; its family decides, text models take none."""
    space: CoordinateSpace = CoordinateSpace.RESIZED_PIXELS
    """How the model writes a position on the screen."""
    max_batch: int = Field(default=16, gt=0)
    """Most samples that are computed at once; memory bounds it."""
