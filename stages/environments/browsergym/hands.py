"""Typed actions on a page of Playwright's synchronous interface, the one that BrowserGym uses.

BrowserGym's own actions are text that it executes as Python; nothing that a model wrote goes that way.
"""

from __future__ import annotations

from playwright.sync_api import Page

from trajmill.schemas.actions import (
    Action,
    Click,
    Drag,
    LongPress,
    MoveMouse,
    PressKeys,
    Scroll,
    Swipe,
    SystemButton,
    TypeText,
    Wait,
)
from trajmill.stages.environments.browser.keys import DRAG_STEPS, WHEEL_PIXELS, chord, clicks, milliseconds


def perform(page: Page, action: Action) -> None:
    """Do an action at its place; what a page cannot do changes nothing.

    Raises:
        playwright.sync_api.Error: the page is gone.
    """
    mouse = page.mouse
    match action:
        case Click(x=x, y=y, button=button, count=count):
            mouse.click(x, y, button=button, click_count=clicks(count))
        case LongPress(x=x, y=y, seconds=seconds):
            mouse.click(x, y, delay=milliseconds(seconds))
        case MoveMouse(x=x, y=y):
            mouse.move(x, y)
        case Drag(x=x, y=y, x2=x2, y2=y2):
            mouse.move(x, y)
            mouse.down()
            mouse.move(x2, y2, steps=DRAG_STEPS)
            mouse.up()
        case Swipe(x=x, y=y, x2=x2, y2=y2):
            mouse.move(x, y)
            mouse.wheel(x - x2, y - y2)
        case Scroll(x=x, y=y, clicks=turns):
            if x is not None and y is not None:
                mouse.move(x, y)
            mouse.wheel(0, -turns * WHEEL_PIXELS)
        case TypeText(text=text, clear=clear, enter=enter):
            _type(page, text, clear, enter)
        case PressKeys(keys=names):
            if keys := chord(names):
                page.keyboard.press(keys)
        case SystemButton(button="Back"):
            page.go_back()
        case SystemButton(button="Enter"):
            page.keyboard.press("Enter")
        case Wait(seconds=seconds):
            page.wait_for_timeout(milliseconds(seconds))
        case _:
            pass


def _type(page: Page, text: str, clear: bool, enter: bool) -> None:
    if clear:
        page.keyboard.press("Control+a")
        page.keyboard.press("Delete")
    page.keyboard.type(text)
    if enter:
        page.keyboard.press("Enter")
