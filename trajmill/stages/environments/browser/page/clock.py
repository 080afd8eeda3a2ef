"""Controls the clock of a page: only actions advance it, so that equal actions give equal screens.

Only waiting for the network takes real time. Playwright's own clock is not used: it logs all time of a context and
replays the log in every page that is opened later, so that an episode would depend on the ones before it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from playwright.async_api import BrowserContext, Error

from trajmill.stages.environments.browser.scripts import read_script

_EPOCH_MS = 1_700_000_000_000
"""The start time of every page, in milliseconds since 1970."""
_ADVANCE_CLOCK = "(duration) => window.__advanceClock && window.__advanceClock(duration)"
_SECONDS_PER_FRAME = 2.0


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
