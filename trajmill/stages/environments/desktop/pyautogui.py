"""Turns typed actions into calls of pyautogui, which an OSWorld machine runs; a model's text is data, never code."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from trajmill.schemas.actions import (
    Action,
    Click,
    Drag,
    DragTo,
    HorizontalScroll,
    LongPress,
    MoveMouse,
    PressKeys,
    Scroll,
    Swipe,
    TypeText,
)
from trajmill.stages.environments.desktop.input_limits import (
    MOST_CLICKS,
    bounded_press_seconds,
    bounded_wheel_clicks,
    swipe_wheel_clicks,
)
from trajmill.stages.environments.desktop.keys import find_keys

# The machine always runs this program, which reads the calls to make from its last argument. pyautogui can type only
# ASCII; other text is pasted from the clipboard. The tool that holds the clipboard lives on: if it held this program's
# pipes, the server would wait for it.
_PROGRAM = """
import base64, json, os, sys, time
import pyautogui
pyautogui.FAILSAFE = False
pyautogui.PAUSE = 0.02
for name, arguments in json.loads(base64.b64decode(sys.argv[1])):
    if name == "hold":
        pyautogui.mouseDown()
        time.sleep(arguments[0])
        pyautogui.mouseUp()
    elif name == "paste":
        import pyperclip
        pipes = [os.dup(1), os.dup(2)]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        try:
            pyperclip.copy(arguments[0])
        finally:
            os.dup2(pipes[0], 1)
            os.dup2(pipes[1], 2)
        pyautogui.hotkey("ctrl", "v")
    else:
        getattr(pyautogui, name)(*arguments)
"""
_DRAG_SECONDS = 0.3

Call = tuple[str, tuple[Any, ...]]


def as_command(action: Action) -> list[str] | None:
    """The argument list for `/execute`; None for an action that changes nothing on a desktop."""
    calls = _calls(action)
    if not calls:
        return None
    data = base64.b64encode(json.dumps(calls).encode()).decode()
    return ["python", "-c", _PROGRAM, data]


def _calls(action: Action) -> Sequence[Call]:
    match action:
        case Click(x=x, y=y, button=button, count=count):
            return [("click", (x, y, min(count, MOST_CLICKS), 0.05, button))]
        case LongPress(x=x, y=y, seconds=seconds):
            return [("moveTo", (x, y)), ("hold", (bounded_press_seconds(seconds),))]
        case MoveMouse(x=x, y=y):
            return [("moveTo", (x, y))]
        case Drag(x=x, y=y, x2=x2, y2=y2):
            return [("moveTo", (x, y)), ("dragTo", (x2, y2, _DRAG_SECONDS))]
        case DragTo(x=x, y=y):
            return [("dragTo", (x, y, _DRAG_SECONDS))]
        case Swipe(x=x, y=y, y2=y2):
            return [("moveTo", (x, y)), ("scroll", (swipe_wheel_clicks(y, y2),))]
        case Scroll(x=x, y=y, clicks=clicks):
            return _wheel("scroll", x, y, clicks)
        case HorizontalScroll(x=x, y=y, clicks=clicks):
            return _wheel("hscroll", x, y, clicks)
        case TypeText(text=text, clear=clear, enter=enter):
            emptied: list[Call] = [("hotkey", ("ctrl", "a")), ("press", ("delete",))] if clear else []
            typed: list[Call] = [("write" if text.isascii() else "paste", (text,))] if text else []
            return [*emptied, *typed, *([("press", ("enter",))] if enter else [])]
        case PressKeys(keys=keys):
            names = tuple(key.pyautogui for key in find_keys(keys))
            return [("hotkey", names)] if names else []
        case _:
            return []


def _wheel(name: str, x: int | None, y: int | None, clicks: int) -> Sequence[Call]:
    turn: Call = (name, (bounded_wheel_clicks(clicks),))
    return [turn] if x is None or y is None else [("moveTo", (x, y)), turn]
