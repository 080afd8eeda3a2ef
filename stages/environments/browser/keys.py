"""Keys and the mouse in Playwright's terms, for both of its interfaces; bounded, since a model may ask for anything."""

from __future__ import annotations

import re

WHEEL_PIXELS = 100
"""How far one click of the wheel scrolls, in CSS pixels."""
DRAG_STEPS = 5
"""Moves from where the button goes down to where it comes up."""
_LONGEST_WAIT_MS = 5000
_MOST_CLICKS = 3
_FUNCTION_KEY = re.compile(r"f([1-9]|1[0-2])")
_KEYS = {
    "ctrl": "Control",
    "control": "Control",
    "alt": "Alt",
    "shift": "Shift",
    "meta": "Meta",
    "super": "Meta",
    "enter": "Enter",
    "return": "Enter",
    "esc": "Escape",
    "escape": "Escape",
    "tab": "Tab",
    "backspace": "Backspace",
    "delete": "Delete",
    "space": " ",
    "up": "ArrowUp",
    "down": "ArrowDown",
    "left": "ArrowLeft",
    "right": "ArrowRight",
    "home": "Home",
    "end": "End",
    "pageup": "PageUp",
    "pagedown": "PageDown",
}


def chord(keys: tuple[str, ...]) -> str:
    """Keys that are pressed together, as `keyboard.press` takes them; empty if one of them is no key."""
    known = [_key(key) for key in keys]
    return "+".join(known) if all(known) else ""


def clicks(count: int) -> int:
    """How often the mouse clicks."""
    return max(1, min(count, _MOST_CLICKS))


def milliseconds(seconds: float) -> float:
    """How long a button is held, or nothing is done."""
    return max(0.0, min(seconds * 1000, _LONGEST_WAIT_MS))


def _key(name: str) -> str:
    if name.lower() in _KEYS:
        return _KEYS[name.lower()]
    if _FUNCTION_KEY.fullmatch(name.lower()):
        return name.upper()
    return name if len(name) == 1 and name.isascii() and name.isprintable() else ""
