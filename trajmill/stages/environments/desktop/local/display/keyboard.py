"""Types any character on an X display through XTEST, also those that the keyboard layout lacks."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice

from Xlib import XK, X
from Xlib.display import Display
from Xlib.ext import xtest

from trajmill.stages.environments.desktop.keys import KeyName

_SECONDS_TO_READ_LAYOUT = 0.15
_LATIN1_END, _UNICODE_KEYSYMS = 0x100, 0x01000000
_CONTROL_KEYS = {"\n": "Return", "\t": "Tab"}


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
            place = self._places.get(symbol)
            if place is not None:
                self._tap(*place)
        self._display.sync()

    def press_together(self, keys: Iterable[KeyName]) -> None:
        """Press keys in order and release them in reverse order."""
        places = [self._places.get(_key_symbol(key)) for key in keys]
        known = [place for place in places if place is not None]
        shift = [self._shift] if any(shifted for _, shifted in known) else []
        keycodes = list(dict.fromkeys(shift + [keycode for keycode, _ in known]))
        for keycode in keycodes:
            xtest.fake_input(self._display, X.KeyPress, keycode)
        for keycode in reversed(keycodes):
            xtest.fake_input(self._display, X.KeyRelease, keycode)
        self._display.sync()

    def _tap(self, keycode: int, shifted: bool) -> None:
        if shifted:
            xtest.fake_input(self._display, X.KeyPress, self._shift)
        xtest.fake_input(self._display, X.KeyPress, keycode)
        xtest.fake_input(self._display, X.KeyRelease, keycode)
        if shifted:
            xtest.fake_input(self._display, X.KeyRelease, self._shift)

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
    """The keysym of a character; 0 if no key types it."""
    if character in _CONTROL_KEYS:
        return _named(_CONTROL_KEYS[character])
    if not character.isprintable():
        return 0
    code = ord(character)
    return code if code < _LATIN1_END else _UNICODE_KEYSYMS + code


def _key_symbol(key: KeyName) -> int:
    """The keysym of a key; a character's is its own."""
    return _symbol(key.keysym) if len(key.keysym) == 1 else _named(key.keysym)


def _named(name: str) -> int:
    return int(XK.string_to_keysym(name))
