"""Observes a page, and controls its clock: only actions advance it, so that equal actions give equal screens.

Only waiting for the network takes real time. Playwright's own clock is not used: it logs all time of a context and
replays the log in every page that is opened later, so that an episode would depend on the ones before it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from playwright.async_api import BrowserContext, CDPSession, Error, Frame, Page, Request

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.stages.environments.browser.launch import Viewport

_EPOCH_MS = 1_700_000_000_000
"""The start time of every page, in milliseconds since 1970."""
_ADVANCE_CLOCK = "(duration) => window.__advanceClock && window.__advanceClock(duration)"
_SECONDS_PER_FRAME = 2.0
_ENDLESS = ("websocket", "eventsource", "ping")
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
_LONGEST_ADDRESS = 200


@cache
def read_script(name: str) -> str:
    """The text of a script in JavaScript: a function, or statements.

    Args:
        name: name of its file, without `.js`.
    """
    return files(__package__).joinpath("scripts", f"{name}.js").read_text(encoding="utf-8")


async def freeze_time(context: BrowserContext) -> None:
    """Stop the clock of every page that opens from now on.

    Raises:
        playwright.async_api.Error: the browser is gone.
    """
    await context.add_init_script(f"({read_script('clock')})({_EPOCH_MS:d})")


async def seed_randomness(context: BrowserContext, seed: int) -> None:
    """Make `Math.random` follow the seed in every page that opens from now on.

    Raises:
        playwright.async_api.Error: the browser is gone.
    """
    await context.add_init_script(f"({read_script('random')})({seed % 2**32:d})")


async def advance_clock(context: BrowserContext, seconds: float) -> None:
    """Let time pass in all pages whose clock is stopped; timers that are due fire in order.

    A page that is closed, or goes to another address meanwhile, is skipped.
    """
    duration = round(seconds * 1000)
    for page in context.pages:
        with suppress(Error):
            await page.evaluate(_ADVANCE_CLOCK, duration)
        for frame in page.frames[1:]:
            # A frame that never loads never answers.
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(_SECONDS_PER_FRAME):
                    await frame.evaluate(_ADVANCE_CLOCK, duration)


class PendingRequests:
    """The requests of some pages that have begun and not ended; kinds that never end do not count."""

    def __init__(self) -> None:
        self._pending: dict[Request, Page] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no request is pending."""
        return not self._pending

    def watch(self, page: Page) -> None:
        """Follow a page from now on."""
        page.on("request", lambda request: self._begins(page, request))
        page.on("requestfinished", self._ends)
        page.on("requestfailed", self._ends)

    def forget(self, page: Page) -> None:
        """Forget the requests of a page that has closed."""
        self._pending = {request: by for request, by in self._pending.items() if by is not page}

    def ignore_pending(self) -> None:
        """Forget the pending requests, which may never end, so that they are not waited for again."""
        self._pending.clear()

    def _begins(self, page: Page, request: Request) -> None:
        if request.resource_type not in _ENDLESS:
            self._pending[request] = page

    def _ends(self, request: Request) -> None:
        self._pending.pop(request, None)


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
