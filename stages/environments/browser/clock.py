"""Time in a page: stands still but for what each action lets pass, so that equal actions give equal screens.

Dates, timers and animation frames are Playwright's fake ones. Nothing is waited for in real time but the network.
"""

from __future__ import annotations

from importlib.resources import files

from playwright.async_api import BrowserContext

_EPOCH = 1_700_000_000.0
"""What a page takes for the time of its start: seconds since 1970."""
_SEEDED = files(__package__).joinpath("seeded.js").read_text()


async def freeze_time(context: BrowserContext) -> None:
    """Stop the clock of a context without pages.

    Raises:
        playwright.async_api.Error: the browser is gone.
    """
    await context.clock.install(time=_EPOCH)
    await context.clock.pause_at(_EPOCH + 1)


async def seed_randomness(context: BrowserContext, seed: int) -> None:
    """Make `Math.random` of every page to come a function of the seed.

    Raises:
        playwright.async_api.Error: the browser is gone.
    """
    await context.add_init_script(f"({_SEEDED})({seed % 2**32:d})")


async def let_pass(context: BrowserContext, seconds: float) -> None:
    """Let time pass in all pages of a context whose clock is frozen: timers and animation frames fire in order.

    Raises:
        playwright.async_api.Error: a page is gone.
    """
    await context.clock.run_for(round(seconds * 1000))
