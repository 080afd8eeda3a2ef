"""Reads the accessibility tree of the compiled app, in the conventions of the simulated world."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, NamedTuple

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement

READER = files(__package__).joinpath("elements.js").read_text(encoding="utf-8")
"""A JavaScript function for the page; it waits until nothing has scrolled for a number of frames, its argument."""


class Screenful(NamedTuple):
    """The elements of the page at one moment."""

    app: str
    """Id of the app in the foreground; empty on the launcher."""
    visible: tuple[UIElement, ...]
    everything: tuple[UIElement, ...]
    """All elements, also those out of view, which have empty boxes."""


def read_screenful(found: dict[str, Any], scale: int) -> Screenful:
    """Convert the result of `READER` to pixels of the screenshot; `scale` is the number of these in a CSS pixel."""
    elements = [(_element(row, scale), row[-1]) for row in found["rows"]]
    visible = tuple(element for element, is_visible in elements if is_visible)
    return Screenful(found["app"], visible, tuple(element for element, _ in elements))


def _element(row: list[Any], scale: int) -> UIElement:
    role, text, left, top, right, bottom, states, value, element_id, _ = row
    box = Box(round(left * scale), round(top * scale), round(right * scale), round(bottom * scale))
    return UIElement(role, text, box, tuple(states), value, element_id)
