"""What came of each step, in words, from the trees before and after it (paper 6.4)."""

from __future__ import annotations

from stages.critics.replay import SeenStep


class TreeDescriber:
    """Describes outcomes by comparing trees; needs no model."""

    async def describe(self, step: SeenStep) -> str:
        """The outcome of a step, e.g. `Tapped button "Add to cart": opened "Cart" of "shop.cart".`."""
        return step.caption
