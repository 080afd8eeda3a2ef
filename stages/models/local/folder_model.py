"""What models in a folder have in common: version, frame, and loading again after a close."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.geometry import Size
from trajmill.stages.models.local.folder import folder_version, model_folder
from trajmill.stages.models.local.spec import FolderSpec

L = TypeVar("L")


class FolderModel(Generic[L]):
    """The part of a `ChatModel` that is the same whatever runs the folder's weights."""

    def __init__(self, spec: FolderSpec, load: Callable[[], L]) -> None:
        """Load the weights.

        Raises:
            BadInputError: the folder holds no model that can be loaded here.
        """
        self._family = spec.vision_family
        self._version = folder_version(model_folder(spec.model))
        self._load = load
        self._loading = Lock()
        self._held: L | None = load()

    @property
    def version(self) -> str:
        """Name of the folder and hash of what is in it."""
        return self._version

    def frame(self, screen: Size) -> CoordinateFrame:
        """The coordinates it writes, on the size at which it sees a screen."""
        return self._family.frame(screen)

    def _loaded(self) -> L:
        """The weights, loaded again if they were let go of; takes the time of loading."""
        with self._loading:
            if self._held is None:
                self._held = self._load()
            return self._held

    def _let_go(self) -> L | None:
        """What was loaded, which this model holds no longer; None if there was nothing."""
        with self._loading:
            held, self._held = self._held, None
            return held
