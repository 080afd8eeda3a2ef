"""Time in a page: stands still but for what each action lets pass, so that equal actions give equal screens.

Nothing is waited for in real time but the network. Playwright's own clock is not used: it keeps a log of all that has
passed in a context and plays it again in every page that is opened later, so that an episode would depend on those
before it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from playwright.async_api import BrowserContext, Error

from trajmill.stages.environments.browser.scripts import read_script

_EPOCH_MS = 1_700_000_000_000
"""What every page takes for the time of its start: milliseconds since 1970."""
_LET_PASS = "(duration) => window.__letPass && window.__letPass(duration)"
_SECONDS_PER_FRAME = 2.0


async def freeze_time(context: BrowserContext) -> None:
    """Stop the clock of every page to come.

    Raises:
        playwright.async_api.Error: the browser is gone.
    """
    await context.add_init_script(f"({read_script('clock')})({_EPOCH_MS:d})")


async def seed_randomness(context: BrowserContext, seed: int) -> None:
    """Make `Math.random` of every page to come a function of the seed.

    Raises:
        playwright.async_api.Error: the browser is gone.
    """
    await context.add_init_script(f"({read_script('random')})({seed % 2**32:d})")


async def let_pass(context: BrowserContext, seconds: float) -> None:
    """Let time pass in all pages whose clock is frozen: what is due fires in order.

    A page that goes to another address meanwhile, or is gone, is passed over.
    """
    duration = round(seconds * 1000)
    for page in context.pages:
        with suppress(Error):
            await page.evaluate(_LET_PASS, duration)
        for frame in page.frames[1:]:
            # A frame that never loads has nothing that could be asked.
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(_SECONDS_PER_FRAME):
                    await frame.evaluate(_LET_PASS, duration)
