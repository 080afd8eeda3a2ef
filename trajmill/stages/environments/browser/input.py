"""Mouse, keyboard and touch of a page: typed actions as bounded calls of either interface of Playwright."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from playwright.async_api import CDPSession, Page

from trajmill.schemas import actions
from trajmill.stages.environments.browser.page import read_script
from trajmill.stages.environments.keys import find_keys

_WHEEL_PIXELS = 100
_DRAG_STEPS = 5
_LONGEST_WAIT_MS = 5000
_MOST_CLICKS = 3
_SCROLL_POSITIONS = "() => [...document.querySelectorAll('*')].reduce((sum, e) => sum + e.scrollTop + e.scrollLeft, 0)"
_DATE_OR_TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d)?|\d{4}-\d\d|\d{4}-W\d\d|\d\d:\d\d(:\d\d)?")
_MOST_POLLS, _POLLS_AT_REST, _POLL_SECONDS = 40, 4, 0.03
_MOVES = 10
_MOST_TAPS = 3
_LONGEST_PRESS_SECONDS = 5.0
_SECONDS_AT_REST = 0.1
"""Time that a finger rests before it is lifted: the page moves as far as the finger did, and is not thrown."""


class PlaywrightCall(NamedTuple):
    target: Literal["page", "mouse", "keyboard"]
    method: str
    arguments: tuple[float | str, ...] = ()
    options: Mapping[str, Any] = {}

    def on(self, page: Any) -> Any:
        """Call it on a page of either interface; the asynchronous one returns an awaitable."""
        target = page if self.target == "page" else getattr(page, self.target)
        return getattr(target, self.method)(*self.arguments, **self.options)


async def perform(page: Page, action: actions.Action, scale: int) -> None:
    """Do an action; one that a page cannot do changes nothing. `scale` is screenshot pixels per CSS pixel."""
    # A date field takes keys in the order of its locale; `2026-12-01` means the same in each.
    typed = action if isinstance(action, actions.TypeText) and _DATE_OR_TIME.fullmatch(action.text) else None
    if typed is not None and await page.evaluate(read_script("fill_date"), typed.text):
        action = actions.PressKeys(keys=("enter",)) if typed.enter else actions.Wait(seconds=0)
    for call in playwright_calls(action, scale):
        await call.on(page)
        if call.method == "wheel":
            await _wait_until_scrolled(page)


def playwright_calls(action: actions.Action, scale: int = 1) -> list[PlaywrightCall]:
    match action:
        case actions.Click(x=x, y=y, button=button, count=count):
            options = {"button": button, "click_count": max(1, min(count, _MOST_CLICKS))}
            return [_mouse("click", x / scale, y / scale, **options)]
        case actions.LongPress(x=x, y=y, seconds=seconds):
            return [_mouse("click", x / scale, y / scale, delay=_milliseconds(seconds))]
        case actions.MoveMouse(x=x, y=y):
            return [_mouse("move", x / scale, y / scale)]
        case actions.Drag(x=x, y=y, x2=x2, y2=y2):
            moves = _mouse("move", x2 / scale, y2 / scale, steps=_DRAG_STEPS)
            return [_mouse("move", x / scale, y / scale), _mouse("down"), moves, _mouse("up")]
        case actions.DragTo(x=x, y=y):
            return [_mouse("down"), _mouse("move", x / scale, y / scale, steps=_DRAG_STEPS), _mouse("up")]
        case actions.Swipe(x=x, y=y, x2=x2, y2=y2):
            wheel = _mouse("wheel", (x - x2) / scale, (y - y2) / scale)
            return [_mouse("move", x / scale, y / scale), wheel]
        case actions.Scroll(x=x, y=y, clicks=clicks):
            return [*_move(x, y, scale), _mouse("wheel", 0, -clicks * _WHEEL_PIXELS)]
        case actions.HorizontalScroll(x=x, y=y, clicks=clicks):
            return [*_move(x, y, scale), _mouse("wheel", clicks * _WHEEL_PIXELS, 0)]
        case actions.TypeText(text=text, clear=clear, enter=enter):
            cleared = [_press("Control+a"), _press("Delete")] if clear else []
            typed = PlaywrightCall("keyboard", "type", (text,))
            return [*cleared, typed, *([_press("Enter")] if enter else [])]
        case actions.PressKeys(keys=names):
            keys = "+".join(key.playwright for key in find_keys(names))
            return [_press(keys)] if keys else []
        case actions.SystemButton(button="Back"):
            return [PlaywrightCall("page", "go_back")]
        case actions.SystemButton(button="Enter"):
            return [_press("Enter")]
        case actions.Wait(seconds=seconds):
            return [PlaywrightCall("page", "wait_for_timeout", (_milliseconds(seconds),))]
        case _:
            return []


def _move(x: int | None, y: int | None, scale: int) -> list[PlaywrightCall]:
    return [] if x is None or y is None else [_mouse("move", x / scale, y / scale)]


def _mouse(method: str, *position: float, **options: Any) -> PlaywrightCall:
    return PlaywrightCall("mouse", method, position, options)


def _press(keys: str) -> PlaywrightCall:
    return PlaywrightCall("keyboard", "press", (keys,))


def _milliseconds(seconds: float) -> float:
    return max(0.0, min(seconds * 1000, _LONGEST_WAIT_MS))


async def _wait_until_scrolled(page: Page) -> None:
    """Wait until nothing scrolls any more: the browser starts to scroll after it has taken the wheel's event."""
    before, polls_at_rest = None, 0
    for _ in range(_MOST_POLLS):
        now = await page.evaluate(_SCROLL_POSITIONS)
        polls_at_rest = polls_at_rest + 1 if now == before else 0
        if polls_at_rest == _POLLS_AT_REST:
            return
        before = now
        await asyncio.sleep(_POLL_SECONDS)


async def perform_by_touch(page: Page, session: CDPSession, action: actions.Action, scale: int, home: str) -> None:
    """Do an action of the mobile space as `perform`; the button Home opens the address `home`."""
    match action:
        case actions.Click(x=x, y=y, count=count):
            for _ in range(max(1, min(count, _MOST_TAPS))):
                await page.touchscreen.tap(x / scale, y / scale)
        case actions.LongPress(x=x, y=y, seconds=seconds):
            await _touch(session, "touchStart", x / scale, y / scale)
            # The browser's own timer of a long press runs in real time.
            await asyncio.sleep(max(0.0, min(seconds, _LONGEST_PRESS_SECONDS)))
            await _release(session)
        case actions.Swipe(x=x, y=y, x2=x2, y2=y2) | actions.Drag(x=x, y=y, x2=x2, y2=y2):
            await _touch(session, "touchStart", x / scale, y / scale)
            for move in range(1, _MOVES + 1):
                part = move / _MOVES
                await _touch(session, "touchMove", (x + (x2 - x) * part) / scale, (y + (y2 - y) * part) / scale)
            await asyncio.sleep(_SECONDS_AT_REST)
            await _release(session)
        case actions.SystemButton(button="Home"):
            await page.goto(home, wait_until="commit")
        case _:
            await perform(page, action, scale)


async def _touch(session: CDPSession, kind: str, x: float, y: float) -> None:
    await session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})


async def _release(session: CDPSession) -> None:
    await session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
