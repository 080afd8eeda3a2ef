"""What a step's reply should do, as JSON that a reward function reads without anything else beside it."""

from __future__ import annotations

from trajmill.schemas.actions import Action
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform


class ReplyTarget(Record):
    """The action of a step that was judged right, and what is needed to hold a reply against it."""

    family: str
    """In whose dialect replies are written."""
    platform: Platform
    action: Action
    """In pixels of the stored screenshot."""
    box: Box | None
    """The element under the action's position, in the same pixels; null where none was there."""
    screen: Size
    """Of the stored screenshot."""
    resized: Size
    """Of the picture that the model is shown."""

    def frame(self) -> CoordinateFrame:
        """How positions in replies relate to the stored screenshot."""
        return CoordinateFrame(family_named(self.family).space, self.screen, self.resized)
