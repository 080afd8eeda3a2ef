"""Finds Playwright's names of keys, by the names that models write."""

from __future__ import annotations

import re

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


def key_combination(names: tuple[str, ...]) -> str:
    """Keys that are pressed together, as `keyboard.press` takes them; empty if one of the names is unknown."""
    keys = [_key(name) for name in names]
    return "+".join(keys) if all(keys) else ""


def _key(name: str) -> str:
    if name.lower() in _KEYS:
        return _KEYS[name.lower()]
    if _FUNCTION_KEY.fullmatch(name.lower()):
        return name.upper()
    return name if len(name) == 1 and name.isascii() and name.isprintable() else ""
