"""The target of a step's reply, as JSON that is all that a reward function needs."""

from __future__ import annotations

from trajmill.schemas.actions import Action
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.families import Family, family_named
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform


class ReplyTarget(Record):
    """The action of a step of a correct trajectory, and the facts that a comparison with a reply needs."""

    family: str
    """The family whose dialect the replies are in."""
    platform: Platform
    action: Action
    """Its positions are pixels of the stored screenshot."""
    box: Box | None
    """The element at the action's position, in the same pixels; null if there was none."""
    screen: Size
    resized: Size
    """Size of the image that the model is shown."""

    @classmethod
    def of(
        cls, family: Family, platform: Platform, action: Action, box: Box | None, frame: CoordinateFrame
    ) -> ReplyTarget:
        return cls(
            family=family.name,
            platform=platform,
            action=action,
            box=box,
            screen=frame.screen,
            resized=frame.resized,
        )

    def frame(self) -> CoordinateFrame:
        """Return how positions in replies relate to the stored screenshot."""
        return CoordinateFrame(family_named(self.family).space, self.screen, self.resized)
