"""Typing: printable ASCII through `input text`, everything else through the ADBKeyboard input method."""

from __future__ import annotations

import asyncio
import base64
import itertools
import re
from collections.abc import Iterator, Sequence
from time import monotonic

from trajmill.schemas.actions import TypeText
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.android.device.adb import AdbDevice
from trajmill.stages.environments.android.device.gestures import key_event
from trajmill.stages.environments.android.device.shell import Command

KEYBOARD = "com.android.adbkeyboard/.AdbIME"
"""Id of ADBKeyboard, which puts Base64 broadcasts into the focused field."""
_CURRENT_KEYBOARD = ("settings", "get", "secure", "default_input_method")
_BOUND = re.compile(r"mCurId=(\S+) .*mBoundToMethod=(\w+)")
_CHUNK = 400
_MOST_ERASED = 1000
_SWITCH_SECONDS = 5.0
_POLL_SECONDS = 0.05
_LINE_BREAKS = str.maketrans({"\r": "\n", "\v": "\n", "\f": "\n"})


async def type_text(device: AdbDevice, action: TypeText, field_length: int) -> None:
    """Type into the focused field.

    A line break becomes a press of Enter, a tab one of Tab; other control characters are left out. The device's own
    input method is restored afterwards.

    Args:
        device: the device.
        action: the text to type.
        field_length: at least the length of the text in the focused field; `clear` deletes as many characters.

    Raises:
        EnvironmentFailure: the device fails, or lacks ADBKeyboard although the text needs it (class `setup`).
    """
    commands = [key_event("KEYCODE_ENTER")] if action.enter else []
    text = action.text.replace("\r\n", "\n").translate(_LINE_BREAKS)
    if text.isascii():
        erase = _erase(field_length) if action.clear else []
        await _run(device, [*erase, *ascii_commands(text), *commands])
        return
    before = await _own_keyboard(device)
    try:
        await device.run("ime", "enable", KEYBOARD)
        await _set_keyboard(device, KEYBOARD)
        erase = [("am", "broadcast", "-a", "ADB_CLEAR_TEXT")] if action.clear else []
        await _run(device, [*erase, *unicode_commands(text), *commands])
    finally:
        await _set_keyboard(device, before)


def ascii_commands(text: str) -> list[Command]:
    """`input` commands that type ASCII text.

    `input text` types a space for `%s`. If the text itself has `%s`, two commands type the two characters.
    """
    commands: list[Command] = []
    for part in _parts(text):
        if part in _KEYS:
            commands.append(key_event(_KEYS[part]))
        else:
            pieces = part.replace("%s", "%\0s").split("\0")
            commands += [("input", "text", piece.replace(" ", "%s")) for piece in pieces]
    return commands


def unicode_commands(text: str) -> list[Command]:
    """Broadcasts to ADBKeyboard that type any text."""
    commands: list[Command] = []
    for part in _parts(text):
        if part in _KEYS:
            commands.append(key_event(_KEYS[part]))
        else:
            coded = base64.b64encode(part.encode()).decode()
            commands.append(("am", "broadcast", "-a", "ADB_INPUT_B64", "--es", "msg", coded))
    return commands


_KEYS = {"\n": "KEYCODE_ENTER", "\t": "KEYCODE_TAB"}


def _parts(text: str) -> Iterator[str]:
    """Split a text into line breaks and tabs, one each, and pieces between them that fit into one command."""
    for is_key, characters in itertools.groupby(text, key=lambda character: character in _KEYS):
        if is_key:
            yield from characters
            continue
        kept = "".join(each for each in characters if each.isprintable() or (not each.isascii() and _storable(each)))
        for start in range(0, len(kept), _CHUNK):
            yield kept[start : start + _CHUNK]


def _storable(character: str) -> bool:
    return not "\ud800" <= character <= "\udfff"


def _erase(length: int) -> list[Command]:
    return [key_event("KEYCODE_MOVE_END", *["KEYCODE_DEL"] * min(length, _MOST_ERASED))]


async def _run(device: AdbDevice, commands: Sequence[Command]) -> None:
    # One call for each command, because a device needs seconds for a long text.
    for command in commands:
        await device.run(*command)


async def _own_keyboard(device: AdbDevice) -> str:
    """The input method that the device uses; raises if the device lacks ADBKeyboard."""
    known = (await device.run("ime", "list", "-a", "-s")).text.split()
    if KEYBOARD not in known:
        text = f"{device.serial} has no ADBKeyboard, which text beyond ASCII needs; run `adb install ADBKeyboard.apk`"
        raise EnvironmentFailure(text, FailureClass.SETUP)
    return (await device.run(*_CURRENT_KEYBOARD)).text.strip()


async def _set_keyboard(device: AdbDevice, keyboard: str) -> None:
    """Switch to an input method and wait until it is bound; does nothing if `keyboard` is not an id."""
    if "/" not in keyboard:
        return
    await device.run("ime", "set", keyboard)
    deadline = monotonic() + _SWITCH_SECONDS
    while not await _serves(device, keyboard):
        if monotonic() > deadline:
            raise EnvironmentFailure(f"{device.serial} does not switch to the input method {keyboard}")
        await asyncio.sleep(_POLL_SECONDS)


async def _serves(device: AdbDevice, keyboard: str) -> bool:
    """Whether the input method is chosen and bound; a broadcast before that is lost silently."""
    if (await device.run(*_CURRENT_KEYBOARD)).text.strip() != keyboard:
        return False
    bound = _BOUND.search((await device.run("dumpsys", "input_method")).text)
    return bound is None or (bound[1], bound[2]) == (keyboard, "true")
