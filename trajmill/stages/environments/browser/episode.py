"""One episode in the browser: a context with its tabs, the actions in it and its observations."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import NamedTuple
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Error, Page

from trajmill.schemas.actions import Action, Wait
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.stages.environments.browser.launch import Viewport
from trajmill.stages.environments.browser.page.clock import advance_clock, freeze_time, seed_randomness
from trajmill.stages.environments.browser.page.input import perform
from trajmill.stages.environments.browser.page.observation import observe_page, settle
from trajmill.stages.environments.browser.page.touch import perform_by_touch
from trajmill.stages.environments.browser.scripts import read_script
from trajmill.stages.environments.browser.tabs import Tabs
from trajmill.stages.environments.browser.task.goal_check import goal_holds
from trajmill.stages.environments.browser.task.start_and_goal import BrowserGoal, BrowserStart

_SCREEN, _PHONE, _PHONE_SCALE = Size(1280, 720), Size(360, 640), 2
_TICKS, _TICK_SECONDS = 3, 0.2
_LONGEST_WAIT = 10.0
_POLL_SECONDS = 0.02
_MOST_TRIES = 5


class PageTimeouts(NamedTuple):
    """Time limits of pages, in seconds."""

    load: float = 30.0
    """For loading the start page."""
    turn: float = 30.0
    """For an action and the observation of its effect."""
    network: float = 3.0
    """For waiting for the network after an action; then the page is observed as it is."""


def viewport_of(start: BrowserStart) -> Viewport:
    """The viewport that a query asks for, or the default."""
    if start.mobile:
        return Viewport(Size(*start.viewport) if start.viewport else _PHONE, _PHONE_SCALE)
    return Viewport(Size(*start.viewport) if start.viewport else _SCREEN, 1)


class BrowserEpisode:
    """A context from the start URL of a query to its end.

    All methods raise `playwright.async_api.Error` if the browser is gone, and EnvironmentFailure if a page has crashed.
    """

    def __init__(self, context: BrowserContext, start: BrowserStart, goal: BrowserGoal, timeouts: PageTimeouts) -> None:
        self._context = context
        self._start = start
        self._goal = goal
        self._timeouts = timeouts
        self.viewport = viewport_of(start)
        self.tabs = Tabs(context, self.viewport, start.mobile, start.files)
        self.app = urlsplit(start.url).hostname or ""

    @property
    def has_check(self) -> bool:
        """Whether its query has a goal to check."""
        return bool(self._goal.all)

    async def open(self, seed: int) -> Observation:
        """Open the start URL; the clock stands still, and `Math.random` follows the seed.

        Raises:
            EnvironmentFailure: the server answers with an error.
        """
        self._context.set_default_timeout(self._timeouts.turn * 1000)
        await self._context.add_init_script(read_script("before_page"))
        await freeze_time(self._context)
        await seed_randomness(self._context, seed)
        page = await self.tabs.front()
        answer = await page.goto(self._start.url, wait_until="load", timeout=self._timeouts.load * 1000)
        if answer is not None and answer.status >= 400:
            raise EnvironmentFailure(f"the server answers {answer.status} {answer.status_text}")
        return await self.observe()

    async def act(self, action: Action) -> Observation:
        """Do an action in the front tab, and observe its effect."""
        page = await self.tabs.front()
        try:
            await self._perform(page, action)
        except Error:
            if not page.is_closed():  # a press may close its own tab
                raise
        return await self.observe()

    async def observe(self) -> Observation:
        """Wait until the page has settled, then observe the front tab."""
        await self._settle()
        for tries_left in reversed(range(_MOST_TRIES)):
            page = await self.tabs.front()
            try:
                return await observe_page(page, self.viewport, self.app, await self.tabs.session(page))
            except Error:  # the page may have gone to another address meanwhile
                if not tries_left:
                    raise
                await asyncio.sleep(_POLL_SECONDS)
        raise AssertionError("the last try returns or raises")

    async def score(self) -> float:
        """1 if the goal holds now, else 0."""
        page = await self.tabs.front()
        return float(await goal_holds(self._goal, self._start, page, self.tabs.downloads))

    async def close(self) -> None:
        """Close the context with all its pages and downloads."""
        self.tabs.close()
        await self._context.close()

    async def _perform(self, page: Page, action: Action) -> None:
        if isinstance(action, Wait):
            await advance_clock(self._context, max(0.0, min(action.seconds, _LONGEST_WAIT)))
        elif self._start.mobile:
            session = await self.tabs.session(page)
            await perform_by_touch(page, session, action, self.viewport.scale, self._start.url)
        else:
            await perform(page, action, self.viewport.scale)

    async def _settle(self) -> None:
        """Let time pass in ticks and wait for the network after each; the network does not change the page's time."""
        deadline = monotonic() + self._timeouts.network
        for _ in range(_TICKS):
            await advance_clock(self._context, _TICK_SECONDS)
            while not await self._is_settled():
                if monotonic() > deadline:
                    self.tabs.ignore_pending()
                    break
                await asyncio.sleep(_POLL_SECONDS)

    async def _is_settled(self) -> bool:
        page = await self.tabs.front()
        with suppress(Error):  # the page is on its way to another address
            return await settle(page) and self.tabs.is_idle
        return False
