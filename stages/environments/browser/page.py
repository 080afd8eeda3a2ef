"""A page as an environment sees it: pixels and an accessibility tree out, mouse and keyboard in."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from contextlib import suppress
from importlib.resources import files
from typing import Any

from playwright.async_api import CDPSession, Error, Frame, Page

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
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.stages.environments.browser.keys import DRAG_STEPS, WHEEL_PIXELS, chord, clicks, milliseconds
from trajmill.stages.environments.browser.launch import Viewport

BEFORE_PAGE = files(__package__).joinpath("before_page.js").read_text()
"""To be added to a context as an init script."""
ELEMENTS = files(__package__).joinpath("elements.js").read_text()
"""Returns the visible elements of one frame, a row each."""
SETTLED = files(__package__).joinpath("settled.js").read_text()
"""Returns whether a frame has loaded; brings its animations to their end."""
_SCROLLED = "() => [...document.querySelectorAll('*')].reduce((sum, e) => sum + e.scrollTop + e.scrollLeft, 0)"
_MOST_LOOKS, _LOOKS_AT_REST, _SECONDS_BETWEEN_LOOKS = 40, 4, 0.03
# Where the page of an iframe begins within the box of its element, and how large it is.
_INSIDE = """
(holder) => {
  const style = getComputedStyle(holder);
  const left = parseFloat(style.paddingLeft), top = parseFloat(style.paddingTop);
  const width = holder.clientWidth - left - parseFloat(style.paddingRight);
  const height = holder.clientHeight - top - parseFloat(style.paddingBottom);
  return [holder.clientLeft + left, holder.clientTop + top, width, height];
}
"""
_SECONDS_PER_FRAME = 2.0


async def observe(page: Page, viewport: Viewport, app: str, session: CDPSession) -> Observation:
    """Look at a page: its pixels, and the elements of all its frames.

    Args:
        page: to look at; a dialog of its own must not be open.
        viewport: of the page.
        app: name of what is shown, as the title of the observation.
        session: of the page, as `open_session` makes it.

    Raises:
        playwright.async_api.Error: the page is gone, or has gone to another address meanwhile.
    """
    elements = await elements_of(page, viewport, await page.evaluate(ELEMENTS))
    return observation(await screenshot(session), viewport.pixels, (title(app, viewport), *elements), app)


async def screenshot(session: CDPSession) -> bytes:
    """The page as it is now: a PNG, larger than need be, since packing it well would take longer than drawing it.

    Raises:
        playwright.async_api.Error: the page is gone.
    """
    taken = await session.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})
    return base64.b64decode(taken["data"])


async def open_session(page: Page, viewport: Viewport, mobile: bool = False) -> CDPSession:
    """A session of its own with a page, for screenshots and touch.

    A second session knows nothing of the page's emulated screen, so that it must be told.

    Raises:
        playwright.async_api.Error: the page is gone.
    """
    session = await page.context.new_cdp_session(page)
    width, height = viewport.size
    screen = {"width": width, "height": height, "deviceScaleFactor": viewport.scale, "mobile": mobile}
    await session.send("Emulation.setDeviceMetricsOverride", screen)
    return session


async def settled(page: Page) -> bool:
    """Whether all of a page has loaded; brings its animations to their end.

    Raises:
        playwright.async_api.Error: the page is gone, or has gone to another address meanwhile.
    """
    return bool(await page.evaluate(SETTLED))


def observation(pixels: bytes, size: Size, elements: tuple[UIElement, ...], app: str) -> Observation:
    """What an agent is shown, named by its content.

    Args:
        pixels: a PNG.
        size: of the picture.
        elements: of the accessibility tree.
        app: name of what is shown.
    """
    digest = hashlib.blake2b(pixels, digest_size=12)
    digest.update(repr(elements).encode())
    return Observation(ScreenHandle(digest.hexdigest(), size, lambda: pixels), elements, app)


def title(app: str, viewport: Viewport) -> UIElement:
    """The first element of every tree."""
    return UIElement("heading", app, Box(0, 0, viewport.pixels.width, 1), ("title",))


async def elements_of(page: Page, viewport: Viewport, rows: list[Any]) -> list[UIElement]:
    """The elements of all frames of a page, where they are seen.

    Args:
        page: that shows them.
        viewport: of the page.
        rows: what `ELEMENTS` has returned in the page itself.

    Raises:
        playwright.async_api.Error: the page is gone.
    """
    whole = Box(0, 0, *viewport.size)
    found = [_element(row, whole, viewport.scale) for row in rows]
    for frame in page.frames[1:]:
        # A frame may go, or never load, while the page that holds it can be used all the same.
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(_SECONDS_PER_FRAME):
                found += await _within(frame, whole, viewport.scale)
    return [element for element in found if element.bounds.area]


async def _within(frame: Frame, whole: Box, scale: int) -> list[UIElement]:
    """The elements of a frame where they are seen: its boxes are relative to itself."""
    holder = await frame.frame_element()
    outside = await holder.bounding_box()
    if outside is None or not await holder.is_visible():
        return []
    left, top, width, height = await holder.evaluate(_INSIDE)
    left, top = outside["x"] + left, outside["y"] + top
    seen = Box(
        max(whole.left, round(left)),
        max(whole.top, round(top)),
        min(whole.right, round(left + width)),
        min(whole.bottom, round(top + height)),
    )
    return [_element(row, seen, scale, left, top) for row in await frame.evaluate(ELEMENTS)]


def _element(row: list[Any], seen: Box, scale: int, across: float = 0, down: float = 0) -> UIElement:
    """The element of a row of a frame that begins at (across, down), cut to what is seen of it; empty if nothing is."""
    role, text, left, top, right, bottom, states, value, element_id = row
    box = Box(
        round(max(left + across, seen.left) * scale),
        round(max(top + down, seen.top) * scale),
        round(min(right + across, seen.right) * scale),
        round(min(bottom + down, seen.bottom) * scale),
    )
    return UIElement(role, text, box, tuple(states), value, element_id)


async def perform(page: Page, action: Action, scale: int) -> None:
    """Do an action at its place; what a page cannot do changes nothing.

    Raises:
        playwright.async_api.Error: the page is gone.
    """
    mouse = page.mouse
    match action:
        case Click(x=x, y=y, button=button, count=count):
            await mouse.click(x / scale, y / scale, button=button, click_count=clicks(count))
        case LongPress(x=x, y=y, seconds=seconds):
            await mouse.click(x / scale, y / scale, delay=milliseconds(seconds))
        case MoveMouse(x=x, y=y):
            await mouse.move(x / scale, y / scale)
        case Drag(x=x, y=y, x2=x2, y2=y2):
            await mouse.move(x / scale, y / scale)
            await mouse.down()
            await mouse.move(x2 / scale, y2 / scale, steps=DRAG_STEPS)
            await mouse.up()
        case Swipe(x=x, y=y, x2=x2, y2=y2):
            await mouse.move(x / scale, y / scale)
            await mouse.wheel((x - x2) / scale, (y - y2) / scale)
            await _at_rest(page)
        case Scroll(x=x, y=y, clicks=turns):
            if x is not None and y is not None:
                await mouse.move(x / scale, y / scale)
            await mouse.wheel(0, -turns * WHEEL_PIXELS)
            await _at_rest(page)
        case TypeText(text=text, clear=clear, enter=enter):
            await _type(page, text, clear, enter)
        case PressKeys(keys=names):
            if keys := chord(names):
                await page.keyboard.press(keys)
        case SystemButton(button="Back"):
            await page.go_back()
        case SystemButton(button="Enter"):
            await page.keyboard.press("Enter")
        case Wait(seconds=seconds):
            await page.wait_for_timeout(milliseconds(seconds))
        case _:
            pass


async def _at_rest(page: Page) -> None:
    """Wait until what the wheel has set going stands still: the browser scrolls after it has taken the event."""
    before, still = None, 0
    for _ in range(_MOST_LOOKS):
        now = await page.evaluate(_SCROLLED)
        still = still + 1 if now == before else 0
        if still == _LOOKS_AT_REST:
            return
        before = now
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)


async def _type(page: Page, text: str, clear: bool, enter: bool) -> None:
    if clear:
        await page.keyboard.press("Control+a")
        await page.keyboard.press("Delete")
    await page.keyboard.type(text)
    if enter:
        await page.keyboard.press("Enter")
