"""The windows, pixels, mouse and keyboard of an X display."""

from __future__ import annotations

import io
import mmap
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from Xlib import XK, X, error
from Xlib.display import Display
from Xlib.ext import xtest
from Xlib.protocol import event, rq
from Xlib.xobject.drawable import Window

from trajmill.schemas import actions
from trajmill.schemas.geometry import Box, Size
from trajmill.stages.environments.desktop.protocol import (
    MOST_CLICKS,
    bounded_press_seconds,
    bounded_wheel_clicks,
    swipe_wheel_clicks,
)
from trajmill.stages.environments.keys import KeyName, find_keys

_FROM_PAGER = 2
_POLL_SECONDS = 0.002
SCREEN_FILE = "Xvfb_screen0"
_HEADER = struct.Struct(">25I")  # an XWD file header, always big-endian
_COLOR_BYTES = 12


class WindowInfo(NamedTuple):
    number: int
    title: str
    program: str
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


_BUTTONS = {"left": 1, "middle": 2, "right": 3}
_WHEEL_UP, _WHEEL_DOWN, _WHEEL_LEFT, _WHEEL_RIGHT = 4, 5, 6, 7
_DRAG_STEPS = 8
_DRAG_STEP_SECONDS = 0.01  # toolkits start a drag only after the pointer has moved
_DROP_OFFSETS = (1, 0, 1, 0)  # pixels; file managers accept what they know, with the next motion
_DROP_STEP_SECONDS = 0.05
_SECONDS_TO_READ_LAYOUT = 0.15
_LATIN1_END, _UNICODE_KEYSYMS = 0x100, 0x01000000
_CONTROL_KEYS = {"\n": "Return", "\t": "Tab"}


class DisplayInput:
    def __init__(self, display: Display, wait_for_programs: Callable[[], None]) -> None:
        """Use a display with XTEST; `wait_for_programs` returns when all earlier events are handled."""
        self._display = display
        self._wait_for_programs = wait_for_programs
        self._keyboard = Keyboard(display)

    def perform(self, action: actions.Action) -> None:
        """Do an action; raises OSError without a display, TimeoutError if a program does not answer."""
        match action:
            case actions.Click(x=x, y=y, button=button, count=count):
                self._point_at(x, y)
                for _ in range(min(count, MOST_CLICKS)):
                    self._click(_BUTTONS[button])
            case actions.LongPress(x=x, y=y, seconds=seconds):
                self._point_at(x, y)
                self._click(_BUTTONS["left"], hold=bounded_press_seconds(seconds))
            case actions.MoveMouse(x=x, y=y):
                self._move(x, y)
            case actions.Drag(x=x, y=y, x2=x2, y2=y2):
                self._drag(x, y, x2, y2)
            case actions.DragTo(x=x, y=y):
                pointer = self._display.screen().root.query_pointer()
                self._drag(pointer.root_x, pointer.root_y, x, y)
            case actions.Swipe(x=x, y=y, y2=y2):
                self._point_at(x, y)
                self._turn_wheel(swipe_wheel_clicks(y, y2), _WHEEL_UP, _WHEEL_DOWN)
            case actions.Scroll(x=x, y=y, clicks=clicks) | actions.HorizontalScroll(x=x, y=y, clicks=clicks):
                if x is not None and y is not None:
                    self._point_at(x, y)
                upright = isinstance(action, actions.Scroll)
                self._turn_wheel(clicks, *((_WHEEL_UP, _WHEEL_DOWN) if upright else (_WHEEL_RIGHT, _WHEEL_LEFT)))
            case actions.TypeText(text=text, clear=clear, enter=enter):
                if clear:
                    self._keyboard.press_together(find_keys(("ctrl", "a")))
                    self._keyboard.press_together(find_keys(("delete",)))
                self._keyboard.type(text + ("\n" if enter else ""))
            case actions.PressKeys(keys=keys):
                self._keyboard.press_together(find_keys(keys))
            case _:
                pass
        self._display.sync()

    def _move(self, x: int, y: int) -> None:
        xtest.fake_input(self._display, X.MotionNotify, x=x, y=y)

    def _point_at(self, x: int, y: int) -> None:
        """Move the pointer, and wait until programs have taken away a tooltip that covers the place."""
        self._move(x, y)
        self._display.sync()
        self._wait_for_programs()

    def _click(self, button: int, hold: float = 0.0) -> None:
        xtest.fake_input(self._display, X.ButtonPress, button)
        if hold:
            self._display.sync()
            time.sleep(hold)
        xtest.fake_input(self._display, X.ButtonRelease, button)

    def _drag(self, x: int, y: int, x2: int, y2: int) -> None:
        self._move(x, y)
        xtest.fake_input(self._display, X.ButtonPress, _BUTTONS["left"])
        for step in range(1, _DRAG_STEPS + 1):
            self._move(x + (x2 - x) * step // _DRAG_STEPS, y + (y2 - y) * step // _DRAG_STEPS)
            self._display.sync()
            time.sleep(_DRAG_STEP_SECONDS)
            # A busy program that sees press and release at once starts no drag.
            self._wait_for_programs()
        for offset in _DROP_OFFSETS:
            # What is dropped before its target has asked what it is, and has accepted it, is dropped nowhere.
            self._move(x2 - offset, y2)
            self._display.sync()
            time.sleep(_DROP_STEP_SECONDS)
            self._wait_for_programs()
        xtest.fake_input(self._display, X.ButtonRelease, _BUTTONS["left"])

    def _turn_wheel(self, clicks: int, forwards: int, backwards: int) -> None:
        for _ in range(abs(bounded_wheel_clicks(clicks))):
            self._click(forwards if clicks > 0 else backwards)


class Keyboard:
    """Presses keys; a missing character gets a spare key for ever, because programs read a changed layout late."""

    def __init__(self, display: Display) -> None:
        self._display = display
        first = display.display.info.min_keycode
        count = display.display.info.max_keycode - first + 1
        rows = list(display.get_keyboard_mapping(first, count))
        self._shift = display.keysym_to_keycode(XK.string_to_keysym("Shift_L"))
        self._places: dict[int, tuple[int, bool]] = {}
        for level in (1, 0):
            for offset, row in enumerate(rows):
                if len(row) > level and row[level]:
                    self._places[row[level]] = first + offset, level == 1
        self._spare = [first + offset for offset, row in enumerate(rows) if not any(row)]

    def type(self, text: str) -> None:
        symbols = [symbol for symbol in map(_symbol, text) if symbol]
        self._add_to_layout(symbols)
        for symbol in symbols:
            keycode, shifted = self._places.get(symbol, (0, False))
            if keycode:
                self._press_and_release([self._shift, keycode] if shifted else [keycode])
        self._display.sync()

    def press_together(self, keys: Iterable[KeyName]) -> None:
        symbols = [_symbol(k.keysym) if len(k.keysym) == 1 else int(XK.string_to_keysym(k.keysym)) for k in keys]
        places = [self._places.get(symbol) for symbol in symbols]
        known = [place for place in places if place is not None]
        shift = [self._shift] if any(shifted for _, shifted in known) else []
        keycodes = list(dict.fromkeys(shift + [keycode for keycode, _ in known]))
        self._press_and_release(keycodes)
        self._display.sync()

    def _press_and_release(self, keycodes: Sequence[int]) -> None:
        for keycode in keycodes:
            xtest.fake_input(self._display, X.KeyPress, keycode)
        for keycode in reversed(keycodes):
            xtest.fake_input(self._display, X.KeyRelease, keycode)

    def _add_to_layout(self, symbols: Iterable[int]) -> None:
        """Give missing characters spare keys, as far as there are any, and wait until programs have read the layout."""
        unknown = list(islice((s for s in dict.fromkeys(symbols) if s not in self._places), len(self._spare)))
        for symbol in unknown:
            keycode = self._spare.pop()
            self._display.change_keyboard_mapping(keycode, [[symbol, symbol]])
            self._places[symbol] = keycode, False
        if unknown:
            self._display.sync()
            time.sleep(_SECONDS_TO_READ_LAYOUT)


def _symbol(character: str) -> int:
    if character in _CONTROL_KEYS:
        return int(XK.string_to_keysym(_CONTROL_KEYS[character]))
    code = ord(character) if character.isprintable() else 0
    return code if code < _LATIN1_END else _UNICODE_KEYSYMS + code
