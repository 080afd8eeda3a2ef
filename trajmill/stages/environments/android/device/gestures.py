"""Touches and key presses as commands of a device's program `input`."""

from __future__ import annotations

import re

from trajmill.schemas.actions import Action, Click, Drag, LongPress, PressKeys, Swipe, SystemButton
from trajmill.stages.environments.android.device.shell import Command

_SWIPE_MS = 500
_DRAG_MS = 1000
_LONGEST_PRESS_MS = 5000
_MOST_TAPS = 3
_BUTTONS = {
    "Back": "KEYCODE_BACK",
    "Home": "KEYCODE_HOME",
    "Menu": "KEYCODE_APP_SWITCH",
    "Enter": "KEYCODE_ENTER",
}
"""GUI-Owl's button `Menu` opens the overview of running apps."""
_KEYS = {"RETURN": "ENTER", "ESC": "ESCAPE", "BACKSPACE": "DEL", "DELETE": "FORWARD_DEL"}
_KEY_NAME = re.compile(r"[A-Z0-9_]{1,40}")


def gesture(action: Action) -> tuple[Command, ...]:
    """The commands of a touch or key press; none for an action that a phone cannot do, or of another kind."""
    match action:
        case Click(x=x, y=y, button="left", count=count):
            return (("input", "tap", str(x), str(y)),) * min(max(count, 1), _MOST_TAPS)
        case LongPress(x=x, y=y, seconds=seconds):
            held = min(round(seconds * 1000), _LONGEST_PRESS_MS)
            return (("input", "swipe", str(x), str(y), str(x), str(y), str(held)),)
        case Swipe(x=x, y=y, x2=x2, y2=y2):
            return (("input", "swipe", str(x), str(y), str(x2), str(y2), str(_SWIPE_MS)),)
        case Drag(x=x, y=y, x2=x2, y2=y2):
            return (("input", "draganddrop", str(x), str(y), str(x2), str(y2), str(_DRAG_MS)),)
        case SystemButton(button=button):
            return (key_event(_BUTTONS[button]),)
        case PressKeys(keys=keys):
            names = [_key_name(key) for key in keys]
            return (key_event(*names),) if names and all(names) else ()
        case _:
            return ()


def key_event(*names: str) -> Command:
    """The command that presses keys one after another."""
    return ("input", "keyevent", *names)


def _key_name(key: str) -> str:
    """Adb's name of a key (`volume_up`, `KEYCODE_POWER`, `66`); empty if it cannot be a key."""
    name = key.strip().upper().removeprefix("KEYCODE_")
    if not _KEY_NAME.fullmatch(name):
        return ""
    return name if name.isdecimal() else f"KEYCODE_{_KEYS.get(name, name)}"
