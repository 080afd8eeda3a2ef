"""One MiniWoB++ page as an environment: by seed, with the page's own reward as the programmatic check."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import NamedTuple, TypeVar

from playwright.async_api import BrowserContext, CDPSession, Error, Page

from schemas.actions import Action, Wait
from schemas.errors import EnvironmentFailure, FailureClass
from schemas.geometry import Size
from schemas.observation import Observation
from schemas.query import Platform, Query
from stages.environments.browser.clock import freeze_time, let_pass, seed_randomness
from stages.environments.browser.launch import BrowserProcess, Viewport
from stages.environments.browser.page import BEFORE_PAGE, observe, open_session, perform
from stages.environments.browser.traffic import Traffic, heard_out
from stages.environments.miniwob.fields import page_fields
from stages.environments.miniwob.pages import pages_folder

T = TypeVar("T")

VIEWPORT = Viewport(Size(160, 210), 3)
"""The task area of every page, enlarged so that a vision model can read it."""
_SECONDS_PER_CALL = 20.0
# After the start, then after each action: with these, waits of 0.1 s show each light of simon-says, which go on every
# 0.6 s for 0.25 s.
_SECONDS_TO_START, _SECONDS_TO_SETTLE = 0.7, 0.5
_SECONDS_TO_LOAD = 3.0
_LONGEST_WAIT = 10.0
# The page's own reward display would widen the page and show the outcome to the agent. Its limit of ten seconds is for
# agents that see nothing but time pass; here only an action lets it pass.
_START = """
(seed) => {
  Math.seedrandom(String(seed));
  core.EPISODE_MAX_TIME = 3600000;
  document.getElementById("reward-display").style.display = "none";
  core.startEpisodeReal();
  window.scrollTo(0, 0);
  const goal = core.getUtterance();
  return typeof goal === "string" ? { utterance: goal, fields: null } : goal;
}
"""
_IS_DONE = "Boolean(window.WOB_DONE_GLOBAL)"
_RAW_REWARD = "window.WOB_RAW_REWARD_GLOBAL"


class Task(NamedTuple):
    """What a page asks for at a seed."""

    instruction: str
    fields: tuple[tuple[str, str], ...]
    """What the instruction names, by name; empty where the wheel knows no fields of the page."""


class MiniWobEnvironment:
    """A browser context that plays MiniWoB++ pages; `Query.start_state` is `{"page": ..., "seed": ...}`."""

    platform = Platform.WEB
    name = "miniwob"

    def __init__(self, context: BrowserContext, page: Page, session: CDPSession) -> None:
        self._context = context
        self._page = page
        self._session = session
        self._traffic = Traffic()
        self._traffic.watch(page)
        self._task = ""

    async def reset(self, query: Query, seed: int) -> Observation:
        """Open the query's page at the query's own seed; `seed` plays no part in what is shown."""
        start = json.loads(query.start_state)
        await self.start(start["page"], start["seed"])
        return await self.look()

    async def start(self, page: str, seed: int) -> Task:
        """Start an episode and return what the page asks for.

        Raises:
            EnvironmentFailure: of class `setup` when there is no such page or it does not start.
        """
        path = pages_folder() / f"{page}.html"
        if path.parent != pages_folder() or not path.is_file():
            raise EnvironmentFailure(f"MiniWoB++ has no page {page!r}", FailureClass.SETUP)
        self._task = page
        try:
            async with asyncio.timeout(_SECONDS_PER_CALL):
                # A page that is only started anew keeps what the last episode has done to it.
                await self._page.goto(path.as_uri())
                await self._page.mouse.move(0, 0)
                asked = await self._page.evaluate(_START, seed)
                await let_pass(self._context, _SECONDS_TO_START)
        except TimeoutError as error:
            raise EnvironmentFailure(f"MiniWoB++ page {page} does not start", FailureClass.SETUP) from error
        except Error as error:
            raise EnvironmentFailure(f"MiniWoB++ page {page}: {error.message}", FailureClass.SETUP) from error
        return Task(" ".join(str(asked["utterance"]).split()), page_fields(page, asked["utterance"], asked["fields"]))

    async def look(self) -> Observation:
        """What the page shows now."""
        return await self._within_time(self._look())

    async def _look(self) -> Observation:
        await heard_out(self._page, self._traffic, _SECONDS_TO_LOAD)
        return await observe(self._page, VIEWPORT, self._task, self._session)

    async def step(self, action: Action) -> Observation:
        """Do one action and let half a second pass; after the page has ended the episode it changes nothing."""
        if not await self.decided():
            await self._within_time(self._perform(action))
        return await self.look()

    async def _perform(self, action: Action) -> None:
        if isinstance(action, Wait):
            await let_pass(self._context, max(0.0, min(action.seconds, _LONGEST_WAIT)))
        else:
            await perform(self._page, action, VIEWPORT.scale)
        await let_pass(self._context, _SECONDS_TO_SETTLE)

    async def score(self) -> float | None:
        """The page's own raw reward, 1 for solved and 0 for anything less; 0 while it is undecided."""
        return 1.0 if await self._within_time(self._page.evaluate(_RAW_REWARD)) == 1 else 0.0

    async def decided(self) -> bool:
        """Whether the page has ended the episode."""
        return bool(await self._within_time(self._page.evaluate(_IS_DONE)))

    async def close(self) -> None:
        """Close the context."""
        try:
            await self._context.close()
        except Error as error:
            raise EnvironmentFailure(f"the browser is gone: {error.message}") from error

    async def _within_time(self, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(_SECONDS_PER_CALL):
                return await work
        except TimeoutError as error:
            raise EnvironmentFailure(f"MiniWoB++ page {self._task} hangs") from error
        except Error as error:
            raise EnvironmentFailure(f"MiniWoB++ page {self._task}: {error.message}") from error


class MiniWobFactory:
    """Makes MiniWoB++ environments, all in one browser."""

    def __init__(self) -> None:
        self._browser = BrowserProcess()

    async def __call__(self) -> MiniWobEnvironment:
        """A fresh context with the scripts that reading and pressing need."""
        context = await self._browser.new_context(VIEWPORT)
        try:
            await context.add_init_script(BEFORE_PAGE)
            await freeze_time(context)
            await seed_randomness(context, 0)
            page = await context.new_page()
            return MiniWobEnvironment(context, page, await open_session(page, VIEWPORT))
        except Error as error:
            raise EnvironmentFailure(f"the browser failed: {error.message}", FailureClass.SETUP) from error

    async def close(self) -> None:
        """Stop the browser."""
        await self._browser.close()
