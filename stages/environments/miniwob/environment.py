"""One MiniWoB++ page as an environment: by seed, with the page's own reward as the programmatic check."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import TypeVar

from playwright.async_api import BrowserContext, Error, Page

from schemas.actions import Action
from schemas.errors import EnvironmentFailure, FailureClass
from schemas.geometry import Size
from schemas.observation import Observation
from schemas.query import Platform, Query
from stages.environments.browser.launch import BrowserProcess, Viewport
from stages.environments.browser.page import BEFORE_PAGE, observe, perform
from stages.environments.miniwob.pages import pages_folder

T = TypeVar("T")

VIEWPORT = Viewport(Size(160, 210), 3)
"""The task area of every page, enlarged so that a vision model can read it."""
_SECONDS_PER_CALL = 20.0
# The page's own reward display would widen the page and show the outcome to the agent.
_START = """
(seed) => {
  Math.seedrandom(String(seed));
  core.EPISODE_MAX_TIME = 3600000;
  document.getElementById("reward-display").style.display = "none";
  core.startEpisodeReal();
  window.scrollTo(0, 0);
  const goal = core.getUtterance();
  return typeof goal === "string" ? goal : goal.utterance;
}
"""


class MiniWobEnvironment:
    """A browser context that plays MiniWoB++ pages; `Query.start_state` is `{"page": ..., "seed": ...}`."""

    platform = Platform.WEB
    name = "miniwob"

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self._context = context
        self._page = page
        self._task = ""

    async def reset(self, query: Query, seed: int) -> Observation:
        """Open the query's page at the query's own seed; `seed` plays no part in what is shown."""
        start = json.loads(query.start_state)
        await self.start(start["page"], start["seed"])
        return await self._within_time(observe(self._page, VIEWPORT, self._task))

    async def start(self, page: str, seed: int) -> str:
        """Start an episode and return the instruction that the page shows."""
        path = pages_folder() / f"{page}.html"
        if path.parent != pages_folder() or not path.is_file():
            raise EnvironmentFailure(f"MiniWoB++ has no page {page!r}", FailureClass.SETUP)
        self._task = page
        try:
            if self._page.url != path.as_uri():
                await self._page.goto(path.as_uri())
                await self._page.wait_for_function("window.core && core.cover_div")
            instruction = await self._page.evaluate(_START, seed)
        except Error as error:
            raise EnvironmentFailure(f"MiniWoB++ page {page}: {error.message}", FailureClass.SETUP) from error
        return " ".join(str(instruction).split())

    async def step(self, action: Action) -> Observation:
        """Do one action; after the page has ended the episode it changes nothing."""
        if not await self._done():
            await self._within_time(perform(self._page, action, VIEWPORT.scale))
        return await self._within_time(observe(self._page, VIEWPORT, self._task))

    async def score(self) -> float | None:
        """The page's own raw reward, 1 for solved and 0 for anything less; 0 while it is undecided."""
        return 1.0 if await self._evaluate("window.WOB_RAW_REWARD_GLOBAL") == 1 else 0.0

    async def close(self) -> None:
        """Close the context."""
        try:
            await self._context.close()
        except Error as error:
            raise EnvironmentFailure(f"the browser is gone: {error.message}") from error

    async def _done(self) -> bool:
        return bool(await self._evaluate("window.WOB_DONE_GLOBAL"))

    async def _evaluate(self, expression: str) -> object:
        return await self._within_time(self._page.evaluate(expression))

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
        await context.add_init_script(BEFORE_PAGE)
        return MiniWobEnvironment(context, await context.new_page())

    async def close(self) -> None:
        """Stop the browser."""
        await self._browser.close()
