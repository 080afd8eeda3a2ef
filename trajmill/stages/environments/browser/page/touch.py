"""Touches in a page that is shown as on a phone."""

from __future__ import annotations

import asyncio

from playwright.async_api import CDPSession, Page

from trajmill.schemas.actions import Action, Click, Drag, LongPress, Swipe, SystemButton
from trajmill.stages.environments.browser.page.input import perform

_MOVES = 10
_MOST_TAPS = 3
_LONGEST_PRESS_SECONDS = 5.0
_SECONDS_AT_REST = 0.1
"""Time that a finger rests before it is lifted: the page moves as far as the finger did, and is not thrown."""


async def perform_by_touch(page: Page, session: CDPSession, action: Action, scale: int, home: str) -> None:
    """Do an action of the mobile space; an action that a page cannot do changes nothing.

    Args:
        page: the page.
        session: DevTools session of the page, from `open_session`.
        action: positions in pixels of the screenshot.
        scale: screenshot pixels per CSS pixel.
        home: address that the button Home opens.

    Raises:
        playwright.async_api.Error: the page is gone.
    """
    match action:
        case Click(x=x, y=y, count=count):
            for _ in range(max(1, min(count, _MOST_TAPS))):
                await page.touchscreen.tap(x / scale, y / scale)
        case LongPress(x=x, y=y, seconds=seconds):
            await _touch(session, "touchStart", x / scale, y / scale)
            # The browser's own timer of a long press runs in real time.
            await asyncio.sleep(max(0.0, min(seconds, _LONGEST_PRESS_SECONDS)))
            await _release(session)
        case Swipe(x=x, y=y, x2=x2, y2=y2) | Drag(x=x, y=y, x2=x2, y2=y2):
            await _touch(session, "touchStart", x / scale, y / scale)
            for move in range(1, _MOVES + 1):
                part = move / _MOVES
                await _touch(session, "touchMove", (x + (x2 - x) * part) / scale, (y + (y2 - y) * part) / scale)
            await asyncio.sleep(_SECONDS_AT_REST)
            await _release(session)
        case SystemButton(button="Home"):
            await page.goto(home, wait_until="commit")
        case _:
            await perform(page, action, scale)


async def _touch(session: CDPSession, kind: str, x: float, y: float) -> None:
    await session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})


async def _release(session: CDPSession) -> None:
    await session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
