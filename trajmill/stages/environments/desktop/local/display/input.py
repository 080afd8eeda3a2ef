"""Does typed actions with the mouse and keyboard of an X display, through XTEST."""

from __future__ import annotations

import time
from collections.abc import Callable

from Xlib import X
from Xlib.display import Display
from Xlib.ext import xtest

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
from trajmill.stages.environments.desktop.local.display.keyboard import Keyboard

_BUTTONS = {"left": 1, "middle": 2, "right": 3}
_WHEEL_UP, _WHEEL_DOWN, _WHEEL_LEFT, _WHEEL_RIGHT = 4, 5, 6, 7
_DRAG_STEPS = 8
_DRAG_STEP_SECONDS = 0.01  # toolkits start a drag only after the pointer has moved
_DROP_OFFSETS = (1, 0, 1, 0)  # pixels; file managers accept what they know, with the next motion
_DROP_STEP_SECONDS = 0.05


class DisplayInput:
    """Mouse and keyboard of one display."""

    def __init__(self, display: Display, wait_for_programs: Callable[[], None]) -> None:
        """Use a display.

        Args:
            display: the display; it must have the XTEST extension.
            wait_for_programs: returns when all programs have handled the events that were sent before.
        """
        self._display = display
        self._wait_for_programs = wait_for_programs
        self._keyboard = Keyboard(display)

    def perform(self, action: Action) -> None:
        """Do an action at its position; an action that a desktop cannot do changes nothing.

        Raises:
            OSError: the display is gone.
            TimeoutError: a program does not answer while the mouse is used.
        """
        match action:
            case Click(x=x, y=y, button=button, count=count):
                self._point_at(x, y)
                for _ in range(min(count, MOST_CLICKS)):
                    self._click(_BUTTONS[button])
            case LongPress(x=x, y=y, seconds=seconds):
                self._point_at(x, y)
                self._click(_BUTTONS["left"], hold=bounded_press_seconds(seconds))
            case MoveMouse(x=x, y=y):
                self._move(x, y)
            case Drag(x=x, y=y, x2=x2, y2=y2):
                self._drag(x, y, x2, y2)
            case DragTo(x=x, y=y):
                pointer = self._display.screen().root.query_pointer()
                self._drag(pointer.root_x, pointer.root_y, x, y)
            case Swipe(x=x, y=y, y2=y2):
                self._point_at(x, y)
                self._turn_wheel(swipe_wheel_clicks(y, y2), _WHEEL_UP, _WHEEL_DOWN)
            case Scroll(x=x, y=y, clicks=clicks):
                if x is not None and y is not None:
                    self._point_at(x, y)
                self._turn_wheel(clicks, _WHEEL_UP, _WHEEL_DOWN)
            case HorizontalScroll(x=x, y=y, clicks=clicks):
                if x is not None and y is not None:
                    self._point_at(x, y)
                self._turn_wheel(clicks, _WHEEL_RIGHT, _WHEEL_LEFT)
            case TypeText(text=text, clear=clear, enter=enter):
                if clear:
                    self._keyboard.press_together(find_keys(("ctrl", "a")))
                    self._keyboard.press_together(find_keys(("delete",)))
                self._keyboard.type(text + ("\n" if enter else ""))
            case PressKeys(keys=keys):
                self._keyboard.press_together(find_keys(keys))
            case _:
                pass
        self._display.sync()

    def _move(self, x: int, y: int) -> None:
        xtest.fake_input(self._display, X.MotionNotify, x=x, y=y)

    def _point_at(self, x: int, y: int) -> None:
        """Move the pointer, and wait until programs have taken away a tooltip that covers the place."""
        self._move(x, y)
        self._display.sync()
        self._wait_for_programs()

    def _click(self, button: int, hold: float = 0.0) -> None:
        xtest.fake_input(self._display, X.ButtonPress, button)
        if hold:
            self._display.sync()
            time.sleep(hold)
        xtest.fake_input(self._display, X.ButtonRelease, button)

    def _drag(self, x: int, y: int, x2: int, y2: int) -> None:
        self._move(x, y)
        xtest.fake_input(self._display, X.ButtonPress, _BUTTONS["left"])
        for step in range(1, _DRAG_STEPS + 1):
            self._move(x + (x2 - x) * step // _DRAG_STEPS, y + (y2 - y) * step // _DRAG_STEPS)
            self._display.sync()
            time.sleep(_DRAG_STEP_SECONDS)
            # A busy program that sees press and release at once starts no drag.
            self._wait_for_programs()
        for offset in _DROP_OFFSETS:
            # What is dropped before its target has asked what it is, and has accepted it, is dropped nowhere.
            self._move(x2 - offset, y2)
            self._display.sync()
            time.sleep(_DROP_STEP_SECONDS)
            self._wait_for_programs()
        xtest.fake_input(self._display, X.ButtonRelease, _BUTTONS["left"])

    def _turn_wheel(self, clicks: int, forwards: int, backwards: int) -> None:
        for _ in range(abs(bounded_wheel_clicks(clicks))):
            self._click(forwards if clicks > 0 else backwards)
