"""Stored screens in memory."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field

from PIL import Image, ImageDraw, ImageFont

from tests.stages.derive.samples import size_of
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, UIElement


class BlankScreens:
    """Screens without pixels and elements, as large as those of the sample episodes."""

    def image(self, screen_id: str) -> bytes:
        raise KeyError(screen_id)

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return ()

    def size(self, screen_id: str) -> Size:
        return size_of(screen_id)


@dataclass
class DrawnScreens:
    """Screens whose elements are filled boxes; the rest is white."""

    trees: Mapping[str, tuple[UIElement, ...]]
    colours: Mapping[str, str] = field(default_factory=dict)
    """By text of the element; white without one."""
    kept: list[Observation] = field(default_factory=list)
    """Screens that a deriver has made."""

    def image(self, screen_id: str) -> bytes:
        drawn = Image.new("RGB", self.size(screen_id), "white")
        pen = ImageDraw.Draw(drawn)
        for element in self.trees[screen_id]:
            left, top, right, bottom = element.bounds
            pen.rectangle((left, top, right - 1, bottom - 1), fill=self.colours.get(element.text, "white"))
        written = io.BytesIO()
        drawn.save(written, "PNG")
        return written.getvalue()

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return self.trees[screen_id]

    def size(self, screen_id: str) -> Size:
        return size_of(screen_id)


@dataclass
class WrittenScreens(DrawnScreens):
    """Screens whose elements are written in black on white, large enough to be read."""

    def image(self, screen_id: str) -> bytes:
        drawn = Image.new("RGB", self.size(screen_id), "white")
        pen, font = ImageDraw.Draw(drawn), ImageFont.load_default(40)
        for element in self.trees[screen_id]:
            pen.text((element.bounds.left + 20, element.bounds.top + 16), element.text, "black", font)
        written = io.BytesIO()
        drawn.save(written, "PNG")
        return written.getvalue()
