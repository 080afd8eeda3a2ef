"""The names of keys in X11, pyautogui and Playwright, found by the names that models write."""

from __future__ import annotations

from typing import NamedTuple


class KeyName(NamedTuple):
    keysym: str
    pyautogui: str
    playwright: str


_NAMES = {
    ("ctrl", "control"): KeyName("Control_L", "ctrl", "Control"),
    ("alt",): KeyName("Alt_L", "alt", "Alt"),
    ("shift",): KeyName("Shift_L", "shift", "Shift"),
    ("meta", "super", "win", "cmd"): KeyName("Super_L", "winleft", "Meta"),
    ("enter", "return"): KeyName("Return", "enter", "Enter"),
    ("esc", "escape"): KeyName("Escape", "esc", "Escape"),
    ("tab",): KeyName("Tab", "tab", "Tab"),
    ("space", " "): KeyName("space", "space", " "),
    ("backspace",): KeyName("BackSpace", "backspace", "Backspace"),
    ("delete", "del"): KeyName("Delete", "delete", "Delete"),
    ("insert",): KeyName("Insert", "insert", "Insert"),
    ("home",): KeyName("Home", "home", "Home"),
    ("end",): KeyName("End", "end", "End"),
    ("pageup", "page_up"): KeyName("Prior", "pageup", "PageUp"),
    ("pagedown", "page_down"): KeyName("Next", "pagedown", "PageDown"),
    ("up", "arrowup"): KeyName("Up", "up", "ArrowUp"),
    ("down", "arrowdown"): KeyName("Down", "down", "ArrowDown"),
    ("left", "arrowleft"): KeyName("Left", "left", "ArrowLeft"),
    ("right", "arrowright"): KeyName("Right", "right", "ArrowRight"),
    ("capslock",): KeyName("Caps_Lock", "capslock", "CapsLock"),
    ("menu",): KeyName("Menu", "apps", "ContextMenu"),
}
_NAMED = {name: key for names, key in _NAMES.items() for name in names}
_FUNCTION_KEYS = {f"f{number}": KeyName(f"F{number}", f"f{number}", f"F{number}") for number in range(1, 13)}


def find_key(name: str) -> KeyName | None:
    """The key with a name: a named key, a function key, or one printable ASCII character; case is ignored."""
    key = _NAMED.get(name.lower()) or _FUNCTION_KEYS.get(name.lower())
    if key is None and len(name) == 1 and name.isascii() and name.isprintable():
        return KeyName(name.lower(), name.lower(), name)
    return key


def find_keys(names: tuple[str, ...]) -> list[KeyName]:
    """The keys of a combination; none if one is unknown, because the others would be another shortcut."""
    keys = [find_key(name) for name in names]
    return [key for key in keys if key is not None] if all(keys) else []
