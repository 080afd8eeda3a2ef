"""The windows of an X display: who manages them, which there are, bringing one to the front, closing one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from Xlib import X, error
from Xlib.display import Display
from Xlib.protocol import event, rq
from Xlib.xobject.drawable import Window

from trajmill.schemas.geometry import Box

_FROM_PAGER = 2
_POLL_SECONDS = 0.002


class WindowInfo(NamedTuple):
    """A window that the window manager knows."""

    number: int
    title: str
    program: str
    """The class that the program gave it, e.g. `Mousepad`."""
    bounds: Box
    """Of its content, without decoration."""


class Windows:
    """A connection to an X display."""

    def __init__(self, display: str) -> None:
        """Connect.

        Raises:
            OSError: there is no such display yet.
        """
        try:
            self.display = Display(display)
        except error.DisplayError as failure:
            raise OSError(str(failure)) from failure
        self.root: Window = self.display.screen().root
        self._pings = 0

    def require_manager(self) -> None:
        """Raise LookupError as long as no window manager has taken over the display."""
        if not self._numbers(self.root, "_NET_SUPPORTING_WM_CHECK"):
            raise LookupError("none has taken over the display")

    def all(self) -> list[WindowInfo]:
        """The windows there are, oldest first; one that goes away meanwhile is left out."""
        found = [self._info(number) for number in self._numbers(self.root, "_NET_CLIENT_LIST")]
        return [window for window in found if window is not None]

    def active(self) -> WindowInfo | None:
        """The window that has the keyboard."""
        numbers = self._numbers(self.root, "_NET_ACTIVE_WINDOW")
        return self._info(numbers[0]) if numbers and numbers[0] else None

    def activate(self, window: WindowInfo) -> None:
        """Bring a window to the front and give it the keyboard."""
        self._tell_manager(window, "_NET_ACTIVE_WINDOW", [_FROM_PAGER, X.CurrentTime, 0])

    def ask_to_close(self, window: WindowInfo) -> None:
        """Ask a window to close, as its close button does."""
        self._tell_manager(window, "_NET_CLOSE_WINDOW", [X.CurrentTime, _FROM_PAGER])

    def wait_for_programs(self, seconds: float) -> None:
        """Wait until programs have taken all events that were sent to their windows before (EWMH, `_NET_WM_PING`).

        A program takes events in order, and answers a ping when its turn comes. A window that takes no part in this, or
        goes away meanwhile, is not waited for.

        Raises:
            TimeoutError: a program does not answer.
        """
        self._pings += 1
        deadline = time.monotonic() + seconds
        with self._hearing_answers():
            waiting = {number for number in self._numbers(self.root, "_NET_CLIENT_LIST") if self._ping(number)}
            while waiting := waiting.intersection(self._numbers(self.root, "_NET_CLIENT_LIST")):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"a program does not answer within {seconds:g} s")
                while self.display.pending_events():
                    waiting.discard(self._answering(self.display.next_event()))
                time.sleep(_POLL_SECONDS)

    def pointer(self) -> tuple[int, int]:
        """Where the mouse pointer is."""
        at = self.root.query_pointer()
        return at.root_x, at.root_y

    def close(self) -> None:
        """Leave the display, which may be gone already."""
        with suppress(error.ConnectionClosedError, OSError):
            self.display.close()

    @contextmanager
    def _hearing_answers(self) -> Iterator[None]:
        self.root.change_attributes(event_mask=X.SubstructureNotifyMask)
        try:
            yield
        finally:
            self.root.change_attributes(event_mask=X.NoEventMask)
            self.display.sync()
            while self.display.pending_events():
                self.display.next_event()

    def _ping(self, number: int) -> bool:
        """Ask a window for an answer; whether it will give one."""
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
        """The window that answers the last ping with an event, 0 if none does."""
        if happened.type != X.ClientMessage or happened.client_type != self.display.intern_atom("WM_PROTOCOLS"):
            return 0
        atom, ping, number = happened.data[1][:3]
        return int(number) if (atom, ping) == (self.display.intern_atom("_NET_WM_PING"), self._pings) else 0

    def _tell_manager(self, window: WindowInfo, request: str, values: list[int]) -> None:
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
            # The answer says where the root's origin lies in the window.
            left, top = -corner.x, -corner.y
            return WindowInfo(
                number, self._title(window), names[1], Box(left, top, left + shape.width, top + shape.height)
            )
        except error.XError:
            return None

    def _title(self, window: Window) -> str:
        named = window.get_full_property(self.display.intern_atom("_NET_WM_NAME"), X.AnyPropertyType)
        value = named.value if named is not None else window.get_wm_name() or ""
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def _numbers(self, window: Window, name: str) -> list[int]:
        found = window.get_full_property(self.display.intern_atom(name), X.AnyPropertyType)
        return list(found.value) if found is not None else []
