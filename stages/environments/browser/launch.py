"""Starts the browser: one process for many isolated contexts."""

from __future__ import annotations

import shutil
from typing import NamedTuple

from playwright.async_api import Browser, BrowserContext, Error, Playwright, async_playwright

from schemas.errors import EnvironmentFailure, FailureClass
from schemas.geometry import Size

EXECUTABLE = "chromium-headless-shell"
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)
_ONLY_LOOPBACK = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"


class Viewport(NamedTuple):
    """Size of a page in CSS pixels and how many screenshot pixels one CSS pixel has."""

    size: Size
    scale: int


class BrowserProcess:
    """A headless Chromium that starts when first needed and again after a crash; it reaches loopback only."""

    def __init__(self) -> None:
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    async def new_context(self, viewport: Viewport) -> BrowserContext:
        """A context with its own cookies and storage.

        Raises:
            schemas.errors.EnvironmentFailure: of class `setup` when the browser is missing or does not start.
        """
        try:
            if self._browser is None or not self._browser.is_connected():
                self._browser = await self._launch()
            return await self._browser.new_context(
                viewport={"width": viewport.size.width, "height": viewport.size.height},
                device_scale_factor=viewport.scale,
                reduced_motion="reduce",
            )
        except Error as error:
            raise EnvironmentFailure(f"the browser did not start: {error.message}", FailureClass.SETUP) from error

    async def close(self) -> None:
        """Stop the browser; closing twice is fine."""
        browser, self._browser = self._browser, None
        playwright, self._playwright = self._playwright, None
        if browser is not None and browser.is_connected():
            await browser.close()
        if playwright is not None:
            await playwright.stop()

    async def _launch(self) -> Browser:
        executable = shutil.which(EXECUTABLE)
        if executable is None:
            raise EnvironmentFailure(f"{EXECUTABLE} is not installed; run `make system-deps`", FailureClass.SETUP)
        if self._playwright is None:
            self._playwright = await async_playwright().start()
        return await self._playwright.chromium.launch(executable_path=executable, args=[*_FLAGS, _ONLY_LOOPBACK])
