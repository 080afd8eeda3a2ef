"""The screens of observations in memory, for whoever reads stored screens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.screen import tree_column


class ObservedScreens:
    """Reads the screens of observations in memory, e.g. those of a finished attempt."""

    def __init__(self, observations: Mapping[str, Observation]) -> None:
        """Read from observations by screen id."""
        self._observations = observations

    def image(self, screen_id: str) -> bytes:
        """The encoded image. Raises KeyError for an unknown id."""
        return self._observations[screen_id].screen.encode()

    def images(self, screen_ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """The ids with their encoded images, one after the other. Raises KeyError for an unknown id."""
        return ((screen_id, self.image(screen_id)) for screen_id in screen_ids)

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        """The accessibility tree, empty where there was none. Raises KeyError for an unknown id."""
        return self._observations[screen_id].elements or ()

    def size(self, screen_id: str) -> Size:
        """Width and height in pixels. Raises KeyError for an unknown id."""
        return self._observations[screen_id].screen.size

    def trees(self, screen_ids: Sequence[str]) -> pa.ListArray:
        """The accessibility trees in the order of the ids, lists of `ELEMENT`. Raises KeyError for an unknown id."""
        return tree_column([self.elements(screen_id) for screen_id in screen_ids])
