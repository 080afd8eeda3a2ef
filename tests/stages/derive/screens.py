"""Stored screens in memory."""

from __future__ import annotations

from tests.stages.derive.samples import size_of
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement


class BlankScreens:
    """Screens without pixels and elements, as large as those of the sample episodes."""

    def image(self, screen_id: str) -> bytes:
        raise KeyError(screen_id)

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return ()

    def size(self, screen_id: str) -> Size:
        return size_of(screen_id)
