"""One distinct screen: pixels and accessibility tree, stored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa

from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import Row, arrow_type

IMAGE = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
"""The Arrow type of images in Hugging Face datasets."""

ELEMENT = arrow_type(UIElement)


def tree_column(trees: Sequence[Sequence[UIElement]]) -> pa.ListArray:
    """Accessibility trees as the table of screens holds them."""
    return pa.array([[element._asdict() for element in tree] for tree in trees], pa.list_(ELEMENT))


class Screen(Row):
    """One distinct screen: pixels and accessibility tree."""

    screen_id: str
    """Content hash of the screen."""
    width: int
    """Width in pixels."""
    height: int
    """Height in pixels."""
    image: Annotated[bytes, IMAGE]
    """The encoded image (PNG); stored as the struct that Hugging Face datasets read."""
    elements: tuple[UIElement, ...]
    """The accessibility tree in reading order; empty without one."""
