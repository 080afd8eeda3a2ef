"""Observes a page: its pixels and the accessibility tree of all its frames."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from playwright.async_api import CDPSession, Error, Frame, Page

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.stages.environments.browser.launch import Viewport
from trajmill.stages.environments.browser.scripts import read_script

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
_LONGEST_ADDRESS = 200


async def observe_page(page: Page, viewport: Viewport, app: str, session: CDPSession) -> Observation:
    """Observe a page: its pixels, and the elements of all its frames.

    Args:
        page: the page, without an open dialog.
        viewport: viewport of the page.
        app: name of the site, as the title of the observation.
        session: DevTools session of the page, from `open_session`.

    Raises:
        playwright.async_api.Error: the page is gone, or has gone to another address meanwhile.
    """
    elements = await frame_elements(page, viewport, await page.evaluate(read_script("elements")))
    title = title_element(app, viewport, _place_of(page.url))
    return make_observation(await screenshot(session), viewport.pixels, (title, *elements), app)


async def screenshot(session: CDPSession) -> bytes:
    """The screenshot of the page: a weakly compressed PNG, because better compression takes longer than drawing.

    Raises:
        playwright.async_api.Error: the page is gone.
    """
    taken = await session.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})
    return base64.b64decode(taken["data"])


async def open_session(page: Page, viewport: Viewport, mobile: bool = False) -> CDPSession:
    """A DevTools session with a page, for screenshots and touch.

    A session beside Playwright's does not know the page's emulated screen, so it is told.

    Raises:
        playwright.async_api.Error: the page is gone.
    """
    session = await page.context.new_cdp_session(page)
    width, height = viewport.size
    screen = {"width": width, "height": height, "deviceScaleFactor": viewport.scale, "mobile": mobile}
    await session.send("Emulation.setDeviceMetricsOverride", screen)
    return session


async def settle(page: Page) -> bool:
    """Finish the animations of a page; returns whether all of the page has loaded.

    Raises:
        playwright.async_api.Error: the page is gone, or has gone to another address meanwhile.
    """
    return bool(await page.evaluate(read_script("settled")))


def make_observation(png: bytes, size: Size, elements: tuple[UIElement, ...], app: str) -> Observation:
    """An observation whose screen id is a hash of its content.

    Args:
        png: the screenshot.
        size: size of the screenshot.
        elements: elements of the accessibility tree.
        app: name of the site.
    """
    digest = hashlib.blake2b(png, digest_size=12)
    digest.update(repr(elements).encode())
    return Observation(ScreenHandle(digest.hexdigest(), size, lambda: png), elements, app)


def title_element(app: str, viewport: Viewport, address: str = "") -> UIElement:
    """The first element of every tree; its value is the address of the page within its site."""
    return UIElement("heading", app, Box(0, 0, viewport.pixels.width, 1), ("title",), address)


def _place_of(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(("", "", parts.path, parts.query, parts.fragment))[:_LONGEST_ADDRESS]


async def frame_elements(page: Page, viewport: Viewport, rows: list[Any]) -> list[UIElement]:
    """The elements of all frames of a page, with their bounds in the screenshot.

    Args:
        page: the page.
        viewport: viewport of the page.
        rows: the result of the script `elements` in the page itself.

    Raises:
        playwright.async_api.Error: the page is gone.
    """
    whole = Box(0, 0, *viewport.size)
    found = [_element(row, whole, viewport.scale) for row in rows]
    for frame in page.frames[1:]:
        # A frame may close, or never load, while the page around it can still be used.
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(_SECONDS_PER_FRAME):
                found += await _elements_in_frame(frame, whole, viewport.scale)
    return [element for element in found if element.bounds.area]


async def _elements_in_frame(frame: Frame, whole: Box, scale: int) -> list[UIElement]:
    """The elements of a frame; the script gives their boxes relative to the frame."""
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
    return [_element(row, seen, scale, left, top) for row in await frame.evaluate(read_script("elements"))]


def _element(row: list[Any], seen: Box, scale: int, across: float = 0, down: float = 0) -> UIElement:
    """The element of a row of a frame that begins at (across, down), cut to its visible part, which may be empty."""
    role, text, left, top, right, bottom, states, value, element_id = row
    box = Box(
        round(max(left + across, seen.left) * scale),
        round(max(top + down, seen.top) * scale),
        round(min(right + across, seen.right) * scale),
        round(min(bottom + down, seen.bottom) * scale),
    )
    return UIElement(role, text, box, tuple(states), value, element_id)
