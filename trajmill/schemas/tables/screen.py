"""One distinct screen: pixels and accessibility tree, stored once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated

import pyarrow as pa
from pydantic import BeforeValidator, PlainSerializer

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Row, arrow_type

IMAGE = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
"""The Arrow type of images in Hugging Face datasets."""

ELEMENT = arrow_type(UIElement)


def tree_column(trees: Sequence[Sequence[UIElement]]) -> pa.ListArray:
    """Accessibility trees as the table of screens holds them."""
    return pa.array([[element._asdict() for element in tree] for tree in trees], pa.list_(ELEMENT))


def trees_of(column: pa.ChunkedArray) -> list[tuple[UIElement, ...]]:
    """Accessibility trees from lists of `ELEMENT`, the inverse of `tree_column`. Raises KeyError without a field."""
    trees = column.combine_chunks()
    fields = zip(*(trees.flatten().field(name).to_pylist() for name in UIElement._fields), strict=True)
    every = (UIElement(role, text, Box(*box), tuple(states), *more) for role, text, box, states, *more in fields)
    return [tuple(islice(every, size)) for size in trees.value_lengths().to_pylist()]


class Screen(Row):
    """One distinct screen: pixels and accessibility tree."""

    screen_id: str
    """Content hash of the screen."""
    width: int
    """Width in pixels."""
    height: int
    """Height in pixels."""
    image: Annotated[
        bytes,
        IMAGE,
        BeforeValidator(lambda image: image["bytes"] if isinstance(image, dict) else image),
        PlainSerializer(lambda image: {"bytes": image, "path": None}),
    ]
    """The encoded image (PNG); stored as the struct that Hugging Face datasets read."""
    elements: tuple[UIElement, ...]
    """The accessibility tree in reading order; empty without one."""


class ObservedScreens:
    """Reads the screens of observations in memory by id, e.g. those of a finished attempt; a `ScreenReader`."""

    def __init__(self, observations: Mapping[str, Observation]) -> None:
        self._observations = observations

    def image(self, screen_id: str) -> bytes:
        return self._observations[screen_id].screen.encode()

    def images(self, screen_ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        return ((screen_id, self.image(screen_id)) for screen_id in screen_ids)

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return self._observations[screen_id].elements or ()

    def size(self, screen_id: str) -> Size:
        return self._observations[screen_id].screen.size

    def trees(self, screen_ids: Sequence[str]) -> pa.ListArray:
        return tree_column([self.elements(screen_id) for screen_id in screen_ids])
