"""Families of vision-language models: how large their pictures are, and how they write a position."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.stages.models.images import ANY_SIZE, GUI_OWL, QWEN2_5_VL, QWEN3_VL, PixelBudget


class ModelFamily(NamedTuple):
    """What the descendants of one vision-language model share."""

    budget: PixelBudget
    space: CoordinateSpace
    """How they write a position on the screen."""


FAMILIES: Final[Mapping[str, ModelFamily]] = MappingProxyType(
    {
        "qwen2.5-vl": ModelFamily(QWEN2_5_VL, CoordinateSpace.RESIZED_PIXELS),
        "qwen3-vl": ModelFamily(QWEN3_VL, CoordinateSpace.PER_999),
        "gui-owl": ModelFamily(GUI_OWL, CoordinateSpace.RESIZED_PIXELS),
        "gui-owl-1.5": ModelFamily(QWEN3_VL, CoordinateSpace.PER_MILLE),
        "any": ModelFamily(ANY_SIZE, CoordinateSpace.RESIZED_PIXELS),
    }
)
"""Families by their names in a configuration; `any` takes pictures as they are and writes their pixels."""
