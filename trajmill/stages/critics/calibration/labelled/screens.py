"""Gives the screenshots of a labelled set as screens; image files are read when they are needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import content_id


class UnreadableError(Exception):
    """A trajectory of the set cannot be read; the message is one line."""


@dataclass(frozen=True, slots=True)
class _Screen:
    path: Path
    size: Size
    elements: tuple[UIElement, ...]


class FolderScreens:
    """A `ScreenReader` for image files; memory holds the trees of the trajectories in progress, but no pixels."""

    def __init__(self) -> None:
        self._screens: dict[str, _Screen] = {}
        self._users: Counter[str] = Counter()

    def add(self, path: Path, elements: tuple[UIElement, ...]) -> str:
        """Add a screenshot with its tree and return its id, the hash of both.

        Raises:
            UnreadableError: the file is missing, or is no image.
        """
        try:
            with Image.open(path) as image:
                size = Size(*image.size)
            screen_id = content_id("screen", path.read_bytes().hex(), elements)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise UnreadableError(f"screenshot {path.name} cannot be read: {type(error).__name__}") from None
        self._screens[screen_id] = _Screen(path, size, elements)
        self._users[screen_id] += 1
        return screen_id

    def drop(self, screen_ids: Iterable[str]) -> None:
        """Remove screens; a screen that was added several times stays until it is dropped as often."""
        self._users.subtract(screen_ids)
        for screen_id in [name for name, users in self._users.items() if users <= 0]:
            del self._users[screen_id], self._screens[screen_id]

    def image(self, screen_id: str) -> bytes:
        """The encoded image. Raises KeyError for an unknown id."""
        return self._screens[screen_id].path.read_bytes()

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        """The accessibility tree. Raises KeyError for an unknown id."""
        return self._screens[screen_id].elements

    def size(self, screen_id: str) -> Size:
        """Width and height in pixels. Raises KeyError for an unknown id."""
        return self._screens[screen_id].size
