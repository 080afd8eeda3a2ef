"""A page as an environment sees it: pixels and an accessibility tree out, mouse and keyboard in."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Any

from playwright.async_api import Page

from schemas.actions import (
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
from schemas.geometry import Box, Size
from schemas.observation import Observation, ScreenHandle, UIElement
from stages.environments.browser.launch import Viewport

BEFORE_PAGE = files(__package__).joinpath("before_page.js").read_text()
"""To be added to a context as an init script."""
_ELEMENTS = files(__package__).joinpath("elements.js").read_text()
_WHEEL_PIXELS = 100
_LONGEST_WAIT_MS = 5000
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


async def observe(page: Page, viewport: Viewport, app: str) -> Observation:
    """Look at a page once its animations have settled into a frame."""
    rows = await page.evaluate(_ELEMENTS)
    pixels = await page.screenshot(type="png", animations="disabled", caret="hide")
    heading = UIElement("heading", app, Box(0, 0, viewport.size.width * viewport.scale, 1), ("title",))
    elements = (heading, *(_element(row, viewport.scale) for row in rows))
    digest = hashlib.blake2b(pixels, digest_size=12)
    digest.update(repr(elements).encode())
    size = Size(viewport.size.width * viewport.scale, viewport.size.height * viewport.scale)
    return Observation(ScreenHandle(digest.hexdigest(), size, lambda: pixels), elements, app)


def _element(row: list[Any], scale: int) -> UIElement:
    role, text, left, top, right, bottom, states, value, element_id = row
    box = Box(round(left * scale), round(top * scale), round(right * scale), round(bottom * scale))
    return UIElement(role, text, box, tuple(states), value, element_id)


async def perform(page: Page, action: Action, scale: int) -> None:
    """Do an action at its place; what a page cannot do changes nothing.

    Raises:
        playwright.async_api.Error: the page is gone.
    """
    mouse = page.mouse
    match action:
        case Click(x=x, y=y, button=button, count=count):
            await mouse.click(x / scale, y / scale, button=button, click_count=count)
        case LongPress(x=x, y=y, seconds=seconds):
            await mouse.click(x / scale, y / scale, delay=min(seconds * 1000, _LONGEST_WAIT_MS))
        case MoveMouse(x=x, y=y):
            await mouse.move(x / scale, y / scale)
        case Drag(x=x, y=y, x2=x2, y2=y2):
            await mouse.move(x / scale, y / scale)
            await mouse.down()
            await mouse.move(x2 / scale, y2 / scale, steps=5)
            await mouse.up()
        case Swipe(x=x, y=y, x2=x2, y2=y2):
            await mouse.move(x / scale, y / scale)
            await mouse.wheel((x - x2) / scale, (y - y2) / scale)
        case Scroll(x=x, y=y, clicks=clicks):
            if x is not None and y is not None:
                await mouse.move(x / scale, y / scale)
            await mouse.wheel(0, -clicks * _WHEEL_PIXELS)
        case TypeText(text=text, clear=clear, enter=enter):
            await _type(page, text, clear, enter)
        case PressKeys(keys=keys):
            await _press(page, keys)
        case SystemButton(button="Back"):
            await page.go_back()
        case SystemButton(button="Enter"):
            await page.keyboard.press("Enter")
        case Wait(seconds=seconds):
            await page.wait_for_timeout(min(seconds * 1000, _LONGEST_WAIT_MS))
        case _:
            pass


async def _type(page: Page, text: str, clear: bool, enter: bool) -> None:
    if clear:
        await page.keyboard.press("Control+a")
        await page.keyboard.press("Delete")
    await page.keyboard.type(text)
    if enter:
        await page.keyboard.press("Enter")


async def _press(page: Page, keys: tuple[str, ...]) -> None:
    known = [_KEYS.get(key.lower(), key if len(key) == 1 else "") for key in keys]
    if known and all(known):
        await page.keyboard.press("+".join(known))
