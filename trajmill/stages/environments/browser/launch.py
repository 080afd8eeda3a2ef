"""Starts the browser: one process for many isolated contexts."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from typing import NamedTuple

from playwright.async_api import Browser, BrowserContext, Error, Playwright, async_playwright

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size

EXECUTABLE = "chromium-headless-shell"
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars"),
    # Equal glyphs on all machines: without the system's hinting and without subpixel colours.
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    # Images are drawn as soon as they are decoded, not some frames later.
    "--disable-checker-imaging",
    # Replaces Playwright's list, which draws each screenshot on a new surface, so that a step takes a fifth longer.
    "--enable-features=SkipListAccountsWithoutGaiaCookies",
    # WebRTC and WebTransport would bypass the proxy of a context.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-blink-features=WebTransport",
)
_ONLY_LOOPBACK = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
_SECONDS_TO_START, _SECONDS_TO_END = 60.0, 10.0


class Viewport(NamedTuple):
    """Size of a page in CSS pixels and how many screenshot pixels one CSS pixel has."""

    size: Size
    scale: int

    @property
    def pixels(self) -> Size:
        return Size(self.size.width * self.scale, self.size.height * self.scale)


class BrowserProcess:
    """A headless Chromium that starts when it is first needed, and again after a crash.

    Viewports of different scales have a process each: while Chromium takes a screenshot at another scale than its own,
    it scales the page for a moment, and a touch in that moment lands at a wrong place.

    It resolves only loopback; a context reaches other hosts through its proxy. The browser ends with this process,
    which has both ends of its pipes.
    """

    def __init__(self, screen: Viewport | None = None) -> None:
        """Pages with the viewport `screen` are drawn as soon as they change; others have an emulated screen."""
        self._screen = screen
        self._playwright: Playwright | None = None
        self._browsers: dict[int, Browser] = {}
        self._starting = asyncio.Lock()

    async def new_context(self, viewport: Viewport, mobile: bool = False, proxy: str | None = None) -> BrowserContext:
        """Make a context; requests go through `proxy`. Raises EnvironmentFailure (`setup`) if no browser starts."""
        emulated = None if viewport == self._screen else viewport
        try:
            async with asyncio.timeout(_SECONDS_TO_START):
                browser = await self._running(viewport.scale)
                try:
                    return await _context(browser, emulated, mobile, proxy)
                except Error:
                    # Playwright does not report that its driver has died.
                    browser = await self._running(viewport.scale, instead_of=browser)
                    return await _context(browser, emulated, mobile, proxy)
        except Error as error:
            raise EnvironmentFailure(f"the browser did not start: {error.message}", FailureClass.SETUP) from error
        except TimeoutError as error:
            raise EnvironmentFailure("the browser does not start in time", FailureClass.SETUP) from error

    async def close(self) -> None:
        browsers, self._browsers = self._browsers, {}
        playwright, self._playwright = self._playwright, None
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_END):
                for browser in browsers.values():
                    if browser.is_connected():
                        await browser.close()
        if playwright is not None:
            # This ends the driver, and with it all remaining processes of the browser.
            with suppress(Error):
                await playwright.stop()

    async def _running(self, scale: int, instead_of: Browser | None = None) -> Browser:
        async with self._starting:
            browser = self._browsers.get(scale)
            if browser is not None and (browser is instead_of or not browser.is_connected()):
                await self.close()
                browser = None
            if browser is None:
                browser = self._browsers[scale] = await self._launch(scale)
            return browser

    async def _launch(self, scale: int) -> Browser:
        executable = shutil.which(EXECUTABLE)
        if executable is None:
            raise EnvironmentFailure(f"{EXECUTABLE} is not installed; run `make system-deps`", FailureClass.SETUP)
        self._playwright = self._playwright or await async_playwright().start()
        flags = [*_FLAGS, _ONLY_LOOPBACK, f"--force-device-scale-factor={scale}"]
        if self._screen is not None:
            width, height = self._screen.size
            flags += [f"--window-size={width},{height}", "--disable-frame-rate-limit"]
        return await self._playwright.chromium.launch(executable_path=executable, args=flags)


async def close_context(context: BrowserContext) -> None:
    """Close a context; raises EnvironmentFailure if the browser does not answer."""
    try:
        async with asyncio.timeout(_SECONDS_TO_END):
            await context.close()
    except (Error, TimeoutError) as error:
        raise EnvironmentFailure(f"the browser is gone: {error}") from error


async def _context(browser: Browser, emulated: Viewport | None, mobile: bool, proxy: str | None) -> BrowserContext:
    return await browser.new_context(
        viewport={"width": emulated.size.width, "height": emulated.size.height} if emulated else None,
        no_viewport=emulated is None,
        device_scale_factor=emulated.scale if emulated else None,
        is_mobile=mobile,
        has_touch=mobile,
        proxy={"server": proxy} if proxy else None,
        reduced_motion="reduce",
        locale="en-US",
        timezone_id="UTC",
        service_workers="block",
    )
