"""Cuts a region out of a stored screen: a screen of its own, with the part of the tree that lies in it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from PIL import Image

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import content_id


class CroppedScreen(NamedTuple):
    """A region of a screen."""

    box: Box
    """Where it lies on the screen."""
    observation: Observation

    @property
    def screen_id(self) -> str:
        """Its id as a stored screen."""
        return self.observation.screen.screen_id

    @property
    def size(self) -> Size:
        """Its width and height."""
        return self.observation.screen.size

    def holds(self, bounds: Box) -> bool:
        """Whether it shows the whole of an element of the screen."""
        box = self.box
        return (
            box.left <= bounds.left
            and box.top <= bounds.top
            and bounds.right <= box.right
            and bounds.bottom <= box.bottom
        )


def cropped(screen_id: str, image: bytes, elements: Sequence[UIElement], box: Box) -> CroppedScreen:
    """A region of a screen; its pixels are cut when they are asked for."""
    size = Size(box.right - box.left, box.bottom - box.top)
    handle = ScreenHandle(content_id("crop", screen_id, list(box)), size, partial(_cut, image, box))
    region = CroppedScreen(box, Observation(handle, (), ""))
    inside = tuple(_moved(element, box) for element in elements if region.holds(element.bounds))
    return region._replace(observation=Observation(handle, inside, ""))


def _cut(image: bytes, box: Box) -> bytes:
    written = io.BytesIO()
    with Image.open(io.BytesIO(image)) as opened:
        opened.convert("RGB").crop(box).save(written, "PNG")
    return written.getvalue()


def _moved(element: UIElement, box: Box) -> UIElement:
    left, top, right, bottom = element.bounds
    bounds = Box(left - box.left, top - box.top, right - box.left, bottom - box.top)
    return element._replace(bounds=bounds)
