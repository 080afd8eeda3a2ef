"""The commands of a device: only `quote` puts text into the one string that adb passes to the device's `sh`."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NewType

from trajmill.schemas.actions import Action, Click, Drag, LongPress, PressKeys, Swipe, SystemButton, TypeText
from trajmill.schemas.errors import EnvironmentFailure, FailureClass

if TYPE_CHECKING:
    from trajmill.stages.environments.android.adb import AdbDevice

ShellLine = NewType("ShellLine", str)
"""A line that is safe to run: made by `shell_line`, or a constant of this package."""

Command = tuple[str, ...]
_PACKAGE = re.compile(r"[A-Za-z]\w*(\.\w+)+")
_MAIN = ("-a", "android.intent.action.MAIN", "-c")
_AS_FROM_LAUNCHER = "0x10200000"
_LAUNCH_SECONDS = "15"
"""An app may start in the background of its first screen; what is seen then is the observation."""
_SWIPE_MS = 500
_DRAG_MS = 1000
_LONGEST_PRESS_MS = 5000
_MOST_TAPS = 3
_BUTTONS = {"Back": "KEYCODE_BACK", "Home": "KEYCODE_HOME", "Menu": "KEYCODE_APP_SWITCH", "Enter": "KEYCODE_ENTER"}
"""GUI-Owl's button `Menu` opens the overview of running apps."""
_KEYS = {"RETURN": "ENTER", "ESC": "ESCAPE", "BACKSPACE": "DEL", "DELETE": "FORWARD_DEL"}
_TYPED_KEYS = {"\n": "KEYCODE_ENTER", "\t": "KEYCODE_TAB"}
_KEY_NAME = re.compile(r"[A-Z0-9_]{1,40}")
KEYBOARD = "com.android.adbkeyboard/.AdbIME"
"""Id of ADBKeyboard, which puts Base64 broadcasts into the focused field."""
_CURRENT_KEYBOARD = ("settings", "get", "secure", "default_input_method")
_BOUND = re.compile(r"mCurId=(\S+) .*mBoundToMethod=(\w+)")
_CHUNK = 400
_MOST_ERASED = 1000
_SWITCH_SECONDS = 5.0
_POLL_SECONDS = 0.05
_LINE_BREAKS = str.maketrans({"\r": "\n", "\v": "\n", "\f": "\n"})


def quote(word: str) -> str:
    """Quote a word for any POSIX shell; raises ValueError for a NUL or a lone surrogate."""
    if "\0" in word:
        raise ValueError("an argument cannot hold a NUL")
    word.encode()
    return shlex.quote(word)


def shell_line(commands: Sequence[Command]) -> ShellLine:
    return ShellLine("; ".join(" ".join(map(quote, command)) for command in commands))


class Apps:
    """The user's names of packages, and the home app of one device."""

    def __init__(self, packages: Mapping[str, str], launcher: str) -> None:
        self._packages = {name.casefold(): package for name, package in packages.items()}
        self._names = {package: name for name, package in packages.items()}
        self.launcher = launcher

    def package_of(self, name: str) -> str | None:
        name = name.strip()
        known = self._packages.get(name.casefold())
        return known or (name if _PACKAGE.fullmatch(name) else None)

    def name_of(self, package: str) -> str:
        """Return the name of a package, or the package itself without one; empty for the home app."""
        return "" if package == self.launcher else self._names.get(package, package)


async def install_apps(device: AdbDevice, apps: Apps, apks: Mapping[str, Path]) -> None:
    """Install each APK unless the device has the same file; raises EnvironmentFailure if one cannot be installed."""
    for name, file in apks.items():
        package = apps.package_of(name)
        if package is None:
            raise EnvironmentFailure(f"APK of {name}: no package is known for it; name it in `environment.apps`")
        try:
            content = await asyncio.to_thread(file.read_bytes)
        except OSError as error:
            raise EnvironmentFailure(f"APK of {name}: {error}") from error
        installed = (await device.run("pm", "path", package)).text.partition("\n")[0].strip()
        digest = (await device.run("sha1sum", installed.removeprefix("package:"))).text.partition(" ")[0]
        if digest == hashlib.sha1(content, usedforsecurity=False).hexdigest():
            continue
        command = ("cmd", "package", "install", "-r", "-g", "-S", str(len(content)))
        output = (await device.run_line(shell_line([command]), content)).text.strip()
        if "Success" not in output:
            raise EnvironmentFailure(f"{device.serial} does not install {file}: {output.rpartition(chr(10))[2][:200]}")


async def find_launcher(device: AdbDevice) -> str:
    component = await _resolve(device, "android.intent.category.HOME")
    if component is None:
        raise EnvironmentFailure(f"{device.serial} has no home app")
    return component.partition("/")[0]


async def start_app(device: AdbDevice, package: str) -> bool:
    """Start an app as its icon does (`monkey -p` would also switch rotation on); False if there is no such app."""
    component = await _resolve(device, "android.intent.category.LAUNCHER", package)
    if component is None:
        return False
    category = (*_MAIN, "android.intent.category.LAUNCHER")
    await device.run(
        "timeout", _LAUNCH_SECONDS, "am", "start", "-W", *category, "-f", _AS_FROM_LAUNCHER, "-n", component
    )
    return True


async def _resolve(device: AdbDevice, category: str, *package: str) -> str | None:
    output = await device.run("cmd", "package", "resolve-activity", "--brief", *_MAIN, category, *package)
    last = output.text.strip().rpartition("\n")[2].strip()
    return last if "/" in last and " " not in last else None


def gesture(action: Action) -> tuple[Command, ...]:
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
            names = []
            for key in keys:
                # Adb's names: `volume_up`, `KEYCODE_POWER`, `66`.
                name = key.strip().upper().removeprefix("KEYCODE_")
                if not _KEY_NAME.fullmatch(name):
                    return ()
                names.append(name if name.isdecimal() else f"KEYCODE_{_KEYS.get(name, name)}")
            return (key_event(*names),) if names else ()
        case _:
            return ()


def key_event(*names: str) -> Command:
    return ("input", "keyevent", *names)


async def type_text(device: AdbDevice, action: TypeText, field_length: int, multi_line: bool | None) -> None:
    """Type into the focused field, and restore the input method; `clear` deletes `field_length` characters.

    Enter would submit in the middle of a text for one line, and would only add a line to a text of several.
    """
    text, enter = action.text.replace("\r\n", "\n").translate(_LINE_BREAKS), action.enter and not multi_line
    if multi_line is False:
        enter, text = enter or text.endswith("\n"), text.rstrip("\n").replace("\n", " ")
    commands = [key_event("KEYCODE_ENTER")] if enter else []
    if text.isascii():
        deletions = ["KEYCODE_DEL"] * min(field_length, _MOST_ERASED)
        erase = [key_event("KEYCODE_MOVE_END", *deletions)] if action.clear else []
        await _run(device, [*erase, *ascii_commands(text), *commands])
        return
    if KEYBOARD not in (await device.run("ime", "list", "-a", "-s")).text.split():
        reason = f"{device.serial} has no ADBKeyboard, which text beyond ASCII needs; run `adb install ADBKeyboard.apk`"
        raise EnvironmentFailure(reason, FailureClass.SETUP)
    before = (await device.run(*_CURRENT_KEYBOARD)).text.strip()
    try:
        await device.run("ime", "enable", KEYBOARD)
        await _set_keyboard(device, KEYBOARD)
        erase = [("am", "broadcast", "-a", "ADB_CLEAR_TEXT")] if action.clear else []
        await _run(device, [*erase, *unicode_commands(text), *commands])
    finally:
        await _set_keyboard(device, before)


def ascii_commands(text: str) -> list[Command]:
    """Return `input` commands that type ASCII text; two commands type a `%s`, which alone would be a space."""
    pieces = (piece for part in _parts(text) for piece in part.replace("%s", "%\0s").split("\0"))
    return [_key(piece) or ("input", "text", piece.replace(" ", "%s")) for piece in pieces]


def unicode_commands(text: str) -> list[Command]:
    broadcast = ("am", "broadcast", "-a", "ADB_INPUT_B64", "--es", "msg")
    return [_key(part) or (*broadcast, base64.b64encode(part.encode()).decode()) for part in _parts(text)]


def _key(part: str) -> Command | None:
    return key_event(_TYPED_KEYS[part]) if part in _TYPED_KEYS else None


def _parts(text: str) -> Iterator[str]:
    """Split a text into line breaks and tabs, one each, and pieces between them that fit into one command."""
    for is_key, characters in itertools.groupby(text, key=lambda character: character in _TYPED_KEYS):
        if is_key:
            yield from characters
            continue
        typed = "".join(
            each
            for each in characters
            if each.isprintable() or (not each.isascii() and not "\ud800" <= each <= "\udfff")
        )
        for start in range(0, len(typed), _CHUNK):
            yield typed[start : start + _CHUNK]


async def _run(device: AdbDevice, commands: Sequence[Command]) -> None:
    # One call for each command, because a device needs seconds for a long text.
    for command in commands:
        await device.run(*command)


async def _set_keyboard(device: AdbDevice, keyboard: str) -> None:
    """Switch to an input method and wait until it is bound; does nothing if `keyboard` is not an id."""
    if "/" not in keyboard:
        return
    await device.run("ime", "set", keyboard)
    deadline = monotonic() + _SWITCH_SECONDS
    while True:
        # A broadcast is lost silently before the input method is chosen and bound.
        if (await device.run(*_CURRENT_KEYBOARD)).text.strip() == keyboard:
            bound = _BOUND.search((await device.run("dumpsys", "input_method")).text)
            if bound is None or (bound[1], bound[2]) == (keyboard, "true"):
                return
        if monotonic() > deadline:
            raise EnvironmentFailure(f"{device.serial} does not switch to the input method {keyboard}")
        await asyncio.sleep(_POLL_SECONDS)
