"""Reads the pixels of an Xvfb screen, with the mouse pointer, from the server's frame buffer file."""

from __future__ import annotations

import io
import mmap
import struct
from pathlib import Path

from PIL import Image

from trajmill.schemas.geometry import Size

SCREEN_FILE = "Xvfb_screen0"
_HEADER = struct.Struct(">25I")  # an XWD file header, always big-endian
_COLOR_BYTES = 12


class FrameBuffer:
    """A view of the screen of `Xvfb -fbdir FOLDER`, 24 bits deep."""

    def __init__(self, folder: Path) -> None:
        with (folder / SCREEN_FILE).open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header = _HEADER.unpack_from(self._memory)
        self.size = Size(header[4], header[5])
        self._line_bytes = header[12]
        self._start = header[0] + header[19] * _COLOR_BYTES

    def raw(self) -> bytes:
        """The present pixels; equal screens have equal bytes."""
        return self._memory[self._start : self._start + self._line_bytes * self.size.height]

    def png(self, raw: bytes) -> bytes:
        """A result of `raw` as PNG."""
        image = Image.frombuffer("RGB", self.size, raw, "raw", "BGRX", self._line_bytes, 1)
        out = io.BytesIO()
        image.save(out, "png", compress_level=1)
        return out.getvalue()

    def close(self) -> None:
        """Close the file."""
        self._memory.close()
