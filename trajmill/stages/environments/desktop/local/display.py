"""The windows of an X display, and its pixels."""

from __future__ import annotations

import io
import mmap
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from Xlib import X, error
from Xlib.display import Display
from Xlib.protocol import event, rq
from Xlib.xobject.drawable import Window

from trajmill.schemas.geometry import Box, Size

_FROM_PAGER = 2
_POLL_SECONDS = 0.002
SCREEN_FILE = "Xvfb_screen0"
_HEADER = struct.Struct(">25I")  # an XWD file header, always big-endian
_COLOR_BYTES = 12


class WindowInfo(NamedTuple):
    number: int
    title: str
    program: str
    """Its class, e.g. `Mousepad`."""
    bounds: Box
    """Box of its content, without its title bar."""


class Windows:
    def __init__(self, display: str) -> None:
        """Connect. Raises OSError if there is no such display yet."""
        try:
            self.display = Display(display)
        except error.DisplayError as failure:
            raise OSError(str(failure)) from failure
        self.root: Window = self.display.screen().root
        self._pings = 0

    def require_manager(self) -> None:
        """Check that a window manager manages the display. Raises LookupError if there is none yet."""
        if not self._numbers(self.root, "_NET_SUPPORTING_WM_CHECK"):
            raise LookupError("there is none on the display")

    def all(self) -> list[WindowInfo]:
        found = [self._info(number) for number in self._numbers(self.root, "_NET_CLIENT_LIST")]
        return [window for window in found if window is not None]

    def active(self) -> WindowInfo | None:
        numbers = self._numbers(self.root, "_NET_ACTIVE_WINDOW")
        return self._info(numbers[0]) if numbers and numbers[0] else None

    def activate(self, window: WindowInfo) -> None:
        self._request(window, "_NET_ACTIVE_WINDOW", [_FROM_PAGER, X.CurrentTime, 0])

    def ask_to_close(self, window: WindowInfo) -> None:
        """Ask a window to close, as its close button does."""
        self._request(window, "_NET_CLOSE_WINDOW", [X.CurrentTime, _FROM_PAGER])

    def wait_for_programs(self, seconds: float) -> None:
        """Wait until programs have handled all events that were sent to their windows before.

        A program handles events in order, so its answer to a ping (EWMH, `_NET_WM_PING`) comes after those before it. A
        window that does not answer pings, or closes meanwhile, is not waited for. Raises TimeoutError if a program does
        not answer.
        """
        self._pings += 1
        deadline = time.monotonic() + seconds
        with self._receiving_events():
            waiting = {number for number in self._numbers(self.root, "_NET_CLIENT_LIST") if self._ping(number)}
            while waiting := waiting.intersection(self._numbers(self.root, "_NET_CLIENT_LIST")):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"a program does not answer within {seconds:g} s")
                while self.display.pending_events():
                    waiting.discard(self._answering(self.display.next_event()))
                time.sleep(_POLL_SECONDS)

    def pointer(self) -> tuple[int, int]:
        at = self.root.query_pointer()
        return at.root_x, at.root_y

    def close(self) -> None:
        with suppress(error.ConnectionClosedError, OSError):
            self.display.close()

    @contextmanager
    def _receiving_events(self) -> Iterator[None]:
        self.root.change_attributes(event_mask=X.SubstructureNotifyMask)
        try:
            yield
        finally:
            self.root.change_attributes(event_mask=X.NoEventMask)
            self.display.sync()
            while self.display.pending_events():
                self.display.next_event()

    def _ping(self, number: int) -> bool:
        ping, protocols = self.display.intern_atom("_NET_WM_PING"), self.display.intern_atom("WM_PROTOCOLS")
        window = self.display.create_resource_object("window", number)
        try:
            if ping not in window.get_wm_protocols():
                return False
        except error.XError:
            return False
        data = (32, [ping, self._pings, number, 0, 0])
        message = event.ClientMessage(window=window, client_type=protocols, data=data)
        window.send_event(message, event_mask=X.NoEventMask, onerror=error.CatchError())
        return True

    def _answering(self, happened: rq.Event) -> int:
        """The window whose answer to the last ping an event is; 0 for any other event."""
        if happened.type != X.ClientMessage or happened.client_type != self.display.intern_atom("WM_PROTOCOLS"):
            return 0
        atom, ping, number = happened.data[1][:3]
        return int(number) if (atom, ping) == (self.display.intern_atom("_NET_WM_PING"), self._pings) else 0

    def _request(self, window: WindowInfo, request: str, values: list[int]) -> None:
        target = self.display.create_resource_object("window", window.number)
        data = (32, values + [0] * (5 - len(values)))
        message = event.ClientMessage(window=target, client_type=self.display.intern_atom(request), data=data)
        self.root.send_event(message, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
        self.display.sync()

    def _info(self, number: int) -> WindowInfo | None:
        window = self.display.create_resource_object("window", number)
        try:
            names = window.get_wm_class() or ("", "")
            shape = window.get_geometry()
            corner = window.translate_coords(self.root, 0, 0)
            # The answer gives the root's origin in coordinates of the window.
            left, top = -corner.x, -corner.y
            named = window.get_full_property(self.display.intern_atom("_NET_WM_NAME"), X.AnyPropertyType)
            title = named.value if named is not None else window.get_wm_name() or ""
            title = title.decode(errors="replace") if isinstance(title, bytes) else str(title)
            return WindowInfo(number, title, names[1], Box(left, top, left + shape.width, top + shape.height))
        except error.XError:
            return None

    def _numbers(self, window: Window, name: str) -> list[int]:
        found = window.get_full_property(self.display.intern_atom(name), X.AnyPropertyType)
        return list(found.value) if found is not None else []


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
        return self._memory[self._start : self._start + self._line_bytes * self.size.height]

    def png(self, raw: bytes) -> bytes:
        image = Image.frombuffer("RGB", self.size, raw, "raw", "BGRX", self._line_bytes, 1)
        out = io.BytesIO()
        image.save(out, "png", compress_level=1)
        return out.getvalue()

    def close(self) -> None:
        self._memory.close()
