"""One distinct screen: pixels and accessibility tree, stored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import Row, required, table_schema

IMAGE = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
"""The Arrow type of images in Hugging Face datasets."""

ELEMENT = pa.struct(
    [
        pa.field("role", pa.string()),
        pa.field("text", pa.string()),
        pa.field("bounds", pa.list_(pa.int32())),
        pa.field("states", pa.list_(pa.string())),
        pa.field("value", pa.string()),
        pa.field("element_id", pa.string()),
    ]
)


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
    image: bytes
    """The encoded image (PNG); stored as the struct that Hugging Face datasets read."""
    elements: tuple[UIElement, ...]
    """The accessibility tree in reading order; empty without one."""

    arrow_schema: ClassVar[pa.Schema] = table_schema(
        required("screen_id", pa.string()),
        required("width", pa.int32()),
        required("height", pa.int32()),
        required("image", IMAGE),
        required("elements", pa.list_(ELEMENT)),
    )
