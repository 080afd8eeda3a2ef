"""Touches and keys as commands of a device's `input` program."""

from __future__ import annotations

import re

from trajmill.schemas.actions import Action, Click, Drag, LongPress, PressKeys, Swipe, SystemButton
from trajmill.stages.environments.android.device.shell import Words

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
"""`Menu` is the overview of running apps, as GUI-Owl describes it (formats_agents A.2)."""
_KEYS = {"RETURN": "ENTER", "ESC": "ESCAPE", "BACKSPACE": "DEL", "DELETE": "FORWARD_DEL"}
_KEY_NAME = re.compile(r"[A-Z0-9_]{1,40}")


def gesture(action: Action) -> tuple[Words, ...]:
    """The commands of an action that is a touch or a key press; none for any other and for what no phone can do."""
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


def key_event(*names: str) -> Words:
    """The command that presses keys one after another."""
    return ("input", "keyevent", *names)


def _key_name(key: str) -> str:
    """The name that adb has for a key (`volume_up`, `KEYCODE_POWER`, `66`), empty for what cannot be one."""
    name = key.strip().upper().removeprefix("KEYCODE_")
    if not _KEY_NAME.fullmatch(name):
        return ""
    return name if name.isdecimal() else f"KEYCODE_{_KEYS.get(name, name)}"
