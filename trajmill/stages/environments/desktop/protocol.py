"""What a desktop and its client share: names of the protocol, names of keys, and bounds of mouse actions.

The tags of the accessibility XML are AT-SPI roles. The bounds exist because a model may ask for anything.
"""

from __future__ import annotations

from typing import NamedTuple

TOKEN_HEADER = "X-Desktop-Token"
"""HTTP header with the secret that a local desktop requires."""
_NAMESPACE = "https://accessibility.ubuntu.example.org/ns"
STATE = f"{{{_NAMESPACE}/state}}"
"""Prefix of attributes such as `showing`, which are `true` if present."""
COMPONENT = f"{{{_NAMESPACE}/component}}"
"""Prefix of `screencoord` and `size`, each `(a, b)` in pixels."""
VALUE = f"{{{_NAMESPACE}/value}}"
"""Prefix of `value`, the number that a slider or a spin button shows."""
MOST_CLICKS = 3
_LONGEST_PRESS_SECONDS = 5.0
_MOST_WHEEL_CLICKS = 50
_PIXELS_PER_WHEEL_CLICK = 60


class CommandResult(NamedTuple):
    """Output and exit status of a command that has ended."""

    output: str
    error: str
    code: int


def bounded_wheel_clicks(clicks: int) -> int:
    """The number of wheel clicks within the bounds; up is positive."""
    return max(-_MOST_WHEEL_CLICKS, min(clicks, _MOST_WHEEL_CLICKS))


def swipe_wheel_clicks(y: int, y2: int) -> int:
    """The number of wheel clicks that scroll as far as a swipe from `y` to `y2`."""
    return bounded_wheel_clicks(round((y2 - y) / _PIXELS_PER_WHEEL_CLICK))


def bounded_press_seconds(seconds: float) -> float:
    """The seconds that a button is held, within the bounds."""
    return min(max(seconds, 0.0), _LONGEST_PRESS_SECONDS)


class KeyName(NamedTuple):
    """A key: its name in X11 and in pyautogui."""

    keysym: str
    """X11's name."""
    pyautogui: str


_NAMED = {
    "ctrl": KeyName("Control_L", "ctrl"),
    "control": KeyName("Control_L", "ctrl"),
    "alt": KeyName("Alt_L", "alt"),
    "shift": KeyName("Shift_L", "shift"),
    "meta": KeyName("Super_L", "winleft"),
    "super": KeyName("Super_L", "winleft"),
    "win": KeyName("Super_L", "winleft"),
    "cmd": KeyName("Super_L", "winleft"),
    "enter": KeyName("Return", "enter"),
    "return": KeyName("Return", "enter"),
    "esc": KeyName("Escape", "esc"),
    "escape": KeyName("Escape", "esc"),
    "tab": KeyName("Tab", "tab"),
    "space": KeyName("space", "space"),
    " ": KeyName("space", "space"),
    "backspace": KeyName("BackSpace", "backspace"),
    "delete": KeyName("Delete", "delete"),
    "del": KeyName("Delete", "delete"),
    "insert": KeyName("Insert", "insert"),
    "home": KeyName("Home", "home"),
    "end": KeyName("End", "end"),
    "pageup": KeyName("Prior", "pageup"),
    "page_up": KeyName("Prior", "pageup"),
    "pagedown": KeyName("Next", "pagedown"),
    "page_down": KeyName("Next", "pagedown"),
    "up": KeyName("Up", "up"),
    "down": KeyName("Down", "down"),
    "left": KeyName("Left", "left"),
    "right": KeyName("Right", "right"),
    "arrowup": KeyName("Up", "up"),
    "arrowdown": KeyName("Down", "down"),
    "arrowleft": KeyName("Left", "left"),
    "arrowright": KeyName("Right", "right"),
    "capslock": KeyName("Caps_Lock", "capslock"),
    "menu": KeyName("Menu", "apps"),
}
_LAST_FUNCTION_KEY = 12


def find_key(name: str) -> KeyName | None:
    """The key with a name: a named key, a function key, or one printable ASCII character; case is ignored."""
    if name.lower() in _NAMED:
        return _NAMED[name.lower()]
    if len(name) == 1 and name.isascii() and name.isprintable():
        return KeyName(name.lower(), name.lower())
    number = name.lower().removeprefix("f")
    if name.lower() == f"f{number}" and number.isdecimal() and 1 <= int(number) <= _LAST_FUNCTION_KEY:
        return KeyName(f"F{int(number)}", f"f{int(number)}")
    return None


def find_keys(names: tuple[str, ...]) -> list[KeyName]:
    """The keys of a combination; none if one is unknown, because the others would be another shortcut."""
    keys = [find_key(name) for name in names]
    return [key for key in keys if key is not None] if all(keys) else []
