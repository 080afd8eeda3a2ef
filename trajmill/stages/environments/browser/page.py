"""Observe a page, and control its clock: only actions advance it, so equal actions give equal screens.

Only waiting for the network takes real time. Playwright's own clock replays the time of a context in every page that
opens later, so an episode would depend on earlier ones.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit, urlunsplit

from playwright.async_api import BrowserContext, CDPSession, Error, Frame, Page, Request, Response

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import Observation, UIElement
from trajmill.stages.environments.base import AWAY, make_observation
from trajmill.stages.environments.browser.launch import Viewport

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000
_ADVANCE_CLOCK = "(duration) => window.__advanceClock && window.__advanceClock(duration)"
_SECONDS_PER_FRAME = 2.0
_ENDLESS = ("websocket", "eventsource", "ping")
_CUT = ("net::ERR_EMPTY_RESPONSE", "net::ERR_CONNECTION_RESET", "net::ERR_CONNECTION_CLOSED")
_LONGEST_ADDRESS = 200


@cache
def read_script(name: str) -> str:
    return files(__package__).joinpath("scripts", f"{name}.js").read_text(encoding="utf-8")


async def make_reproducible(context: BrowserContext, seed: int, now_ms: int = EPOCH_MS) -> None:
    await context.add_init_script(read_script("before_page"))
    await context.add_init_script(f"({read_script('clock')})({now_ms:d})")
    await context.add_init_script(f"({read_script('random')})({seed % 2**32:d})")


async def within_time(work: Awaitable[T], seconds: float, name: str) -> T:
    """Wait for work on a page; raises EnvironmentFailure if it hangs, or the browser is gone."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise EnvironmentFailure(f"{name} hangs") from error
    except Error as error:
        raise EnvironmentFailure(f"{name}: {first_line(error)}") from error


def first_line(error: Error) -> str:
    return (error.message.splitlines() or ["no reason given"])[0]


async def advance_clock(context: BrowserContext, seconds: float) -> None:
    """Let time pass in all pages with a stopped clock, without pages that close or navigate meanwhile."""
    duration = round(seconds * 1000)
    for page in context.pages:
        with suppress(Error):
            await page.evaluate(_ADVANCE_CLOCK, duration)
        for frame in page.frames[1:]:
            # A frame that never loads never answers.
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(_SECONDS_PER_FRAME):
                    await frame.evaluate(_ADVANCE_CLOCK, duration)


class PagePlace(NamedTuple):
    """Where a page is, to load it again."""

    url: str
    now_ms: int
    """The clock to load it with."""


class PendingRequests:
    """The requests of some pages that have not ended; kinds that never end do not count."""

    def __init__(self) -> None:
        self._pending: dict[Request, Page] = {}
        self.away = ""
        """Why the server of a page, not of a part of it, counts as away; empty if it answers."""

    @property
    def is_empty(self) -> bool:
        return not self._pending

    def watch(self, page: Page) -> None:
        page.on("request", lambda request: self._begins(page, request))
        page.on("requestfinished", self._ends)
        page.on("requestfailed", self._ends)
        page.on("response", self._answered)

    def forget(self, page: Page) -> None:
        self._pending = {request: by for request, by in self._pending.items() if by is not page}

    def ignore_pending(self) -> None:
        self._pending.clear()

    def _begins(self, page: Page, request: Request) -> None:
        if request.resource_type not in _ENDLESS:
            self._pending[request] = page

    def _ends(self, request: Request) -> None:
        self._pending.pop(request, None)
        if request.failure in _CUT:
            self._note_away(request, request.failure)

    def _answered(self, response: Response) -> None:
        if response.status in AWAY:
            self._note_away(response.request, f"HTTP {response.status}")

    def _note_away(self, request: Request, why: str) -> None:
        if request.is_navigation_request() and request.frame.parent_frame is None:
            self.away = why


async def observe_page(page: Page, viewport: Viewport, app: str, session: CDPSession, secret: str = "") -> Observation:
    """Observe a page without an open dialog: its pixels, and the elements of all its frames.

    `secret` is left out of its address, so that equal episodes have equal screens.
    """
    elements = await frame_elements(page, viewport, await page.evaluate(read_script("elements")))
    parts = urlsplit(page.url)
    address = urlunsplit(("", "", parts.path, parts.query, parts.fragment))
    address = (address.replace(secret, "") if secret else address)[:_LONGEST_ADDRESS]
    title = title_element(app, viewport, address)
    return make_observation(await screenshot(session), viewport.pixels, (title, *elements), app)


async def screenshot(session: CDPSession) -> bytes:
    """Take a weakly compressed PNG: better compression takes longer than drawing."""
    taken = await session.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})
    return base64.b64decode(taken["data"])


async def open_session(page: Page, viewport: Viewport, mobile: bool = False) -> CDPSession:
    session = await page.context.new_cdp_session(page)
    width, height = viewport.size
    screen = {"width": width, "height": height, "deviceScaleFactor": viewport.scale, "mobile": mobile}
    await session.send("Emulation.setDeviceMetricsOverride", screen)
    return session


async def settle(page: Page) -> bool:
    return bool(await page.evaluate(read_script("settled")))


def title_element(app: str, viewport: Viewport, address: str = "") -> UIElement:
    """Return the first element of every tree; its value is the address of the page within its site."""
    return UIElement("heading", app, Box(0, 0, viewport.pixels.width, 1), ("title",), address)


async def frame_elements(page: Page, viewport: Viewport, rows: list[Any]) -> list[UIElement]:
    """Return the elements of all frames; `rows` is the result of the script `elements` in the page itself."""
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
    left, top, width, height = await holder.evaluate(read_script("inside"))
    left, top = outside["x"] + left, outside["y"] + top
    seen = Box(round(left), round(top), round(left + width), round(top + height)).within(whole)
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
