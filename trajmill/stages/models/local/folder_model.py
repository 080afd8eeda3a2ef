"""What models with a folder of weights share: version, frame, and loading again after they were closed."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.geometry import Size
from trajmill.stages.models.local.spec import FolderSpec

L = TypeVar("L")


class FolderModel(Generic[L]):
    """The part of a `ChatModel` that does not depend on the library that runs the weights."""

    def __init__(self, spec: FolderSpec, load: Callable[[], L]) -> None:
        """Load the weights.

        Raises:
            BadInputError: the folder holds no model that can be loaded here.
        """
        self._family = spec.vision_family
        self._version = spec.version
        self._load = load
        self._loading = Lock()
        self._held: L | None = load()

    @property
    def version(self) -> str:
        """Name of the folder of its weights, or of their adapter, and a hash of its contents."""
        return self._version

    def frame(self, screen: Size) -> CoordinateFrame:
        """The coordinate frame of its answers for a screen size."""
        return self._family.frame(screen)

    def _loaded(self) -> L:
        """The weights; loads them again if they were freed."""
        with self._loading:
            if self._held is None:
                self._held = self._load()
            return self._held

    def _take_loaded(self) -> L | None:
        """Give up the weights and return them, so that the caller can free them; None if none were loaded."""
        with self._loading:
            held, self._held = self._held, None
            return held
