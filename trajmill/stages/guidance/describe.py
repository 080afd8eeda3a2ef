"""Describes the result of each step by comparing the trees before and after it (paper 6.4)."""

from __future__ import annotations

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.stages.critics.trees.replay import SeenStep
from trajmill.stages.guidance.base import StepOutcome


class TreeDescriber:
    """Describes outcomes by comparing trees; needs no model."""

    version = "tree-describer-1"

    async def describe(self, episode: Episode, step: SeenStep, screens: ScreenReader) -> StepOutcome:
        """The outcome of a step, e.g. `Tapped button "Add to cart": opened "Cart" of "shop.cart".`."""
        return StepOutcome(step.caption)
