"""Stored screenshots, as they are sent to a browser: untouched, once their header says that they are harmless."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Collection
from typing import NamedTuple

from PIL import Image, UnidentifiedImageError

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.screens import WarehouseScreens

_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_MOST_PIXELS = 64_000_000
"""Above this a browser would take more than 256 MB to decode it."""


class StoredImage(NamedTuple):
    """An encoded image."""

    data: bytes
    media_type: str


class SharedScreens:
    """The committed screens, read by the threads of a server; follows the commits of the warehouse."""

    def __init__(self, warehouse: Warehouse) -> None:
        """Read nothing yet."""
        self._warehouse = warehouse
        self._screens: WarehouseScreens | None = None
        self._lock = threading.Lock()

    def knowing(self, screen_ids: Collection[str]) -> WarehouseScreens:
        """The screens, looked up again if one of these ids is not known.

        Raises:
            BadInputError: a committed file or an entry of the table's log is missing or damaged.
        """
        with self._lock:
            if self._screens is None:
                self._screens = WarehouseScreens(self._warehouse)
            elif any(screen_id not in self._screens for screen_id in screen_ids):
                self._screens.refresh()
            return self._screens

    def image(self, screen_id: str) -> StoredImage:
        """One screenshot.

        Raises:
            BadInputError: there is no such screen, or it is no image that a browser should decode.
        """
        screens = self.knowing({screen_id})
        if screen_id not in screens:
            raise BadInputError(f"there is no screen {screen_id!r:.40}")
        return checked_image(screens.image(screen_id))


def checked_image(data: bytes) -> StoredImage:
    """An image with its type, from its header alone.

    Raises:
        BadInputError: it is none of the formats that screens are stored in, or larger than any screen.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            with Image.open(io.BytesIO(data), formats=list(_TYPES)) as image:
                kind, (width, height) = image.format, image.size
        except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
            raise BadInputError("the stored screenshot is no PNG, JPEG or WebP image that can be shown") from error
    if width * height > _MOST_PIXELS:
        raise BadInputError(f"the stored screenshot has {width}x{height} pixels, too many to be shown")
    return StoredImage(data, _TYPES[str(kind)])
