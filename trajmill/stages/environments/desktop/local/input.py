"""Mouse and keyboard of an X display through XTEST; it types also the characters that the keyboard layout lacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from Xlib import XK, X
from Xlib.display import Display
from Xlib.ext import xtest

from trajmill.schemas import actions
from trajmill.stages.environments.desktop.protocol import (
    MOST_CLICKS,
    bounded_press_seconds,
    bounded_wheel_clicks,
    swipe_wheel_clicks,
)
from trajmill.stages.environments.keys import KeyName, find_keys

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
        """Use a display with the XTEST extension.

        `wait_for_programs` returns when all programs have handled the events that were sent before.
        """
        self._display = display
        self._wait_for_programs = wait_for_programs
        self._keyboard = Keyboard(display)

    def perform(self, action: actions.Action) -> None:
        """Do an action at its position; an action that a desktop cannot do changes nothing.

        Raises:
            OSError: the display is gone.
            TimeoutError: a program does not answer while the mouse is used.
        """
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
    """Presses keys; each character that the layout lacks gets its own spare key, once.

    A key never changes its character, because programs read a changed layout late.
    """

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
        """Type a text; control characters other than line feed and tab are left out."""
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
