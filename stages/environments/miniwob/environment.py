"""One MiniWoB++ page as an environment: by seed, with the page's own reward as the programmatic check."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from importlib.resources import files
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from playwright.async_api import BrowserContext, CDPSession, Error, Page

from trajmill.schemas.actions import Action, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.browser.launch import BrowserProcess, Viewport
from trajmill.stages.environments.browser.network.pending_requests import Traffic
from trajmill.stages.environments.browser.page.clock import freeze_time, let_pass, seed_randomness
from trajmill.stages.environments.browser.page.input import perform
from trajmill.stages.environments.browser.page.observation import (
    elements_of,
    observation,
    screenshot,
    title,
)
from trajmill.stages.environments.browser.scripts import read_script
from trajmill.stages.environments.miniwob.instruction_fields import page_fields
from trajmill.stages.environments.miniwob.pages import pages_folder

T = TypeVar("T")

VIEWPORT = Viewport(Size(160, 210), 3)
"""The task area of every page, enlarged so that a vision model can read it."""
_SECONDS_PER_CALL = 20.0
# After the start, then after each action: with these, waits of 0.1 s show each light of simon-says, which go on every
# 0.6 s for 0.25 s.
_SECONDS_TO_START, _SECONDS_TO_SETTLE = 0.7, 0.5
_SECONDS_TO_LOAD, _POLL_SECONDS = 3.0, 0.01
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
_OBSERVE = "(milliseconds) => window.__observe(milliseconds)"
_RAW_REWARD = "window.WOB_RAW_REWARD_GLOBAL"


class Task(NamedTuple):
    """What a page asks for at a seed."""

    instruction: str
    fields: tuple[tuple[str, str], ...]
    """What the instruction names, by name; empty where the wheel knows no fields of the page."""


class _Look(NamedTuple):
    """What `observe.js` returns."""

    settled: bool
    decided: bool
    rows: list[Any]


class MiniWobEnvironment:
    """A browser context that plays MiniWoB++ pages; `Query.start_state` is `{"page": ..., "seed": ...}`."""

    platform = Platform.WEB
    name = "miniwob"

    def __init__(self, context: BrowserContext, page: Page, session: CDPSession, viewport: Viewport) -> None:
        self._context = context
        self._page = page
        self._session = session
        self._viewport = viewport
        self._traffic = Traffic()
        self._traffic.watch(page)
        self._task = ""
        self._decided = False

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
        self._task, self._decided = page, False
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
        return await self._within_time(self._observe(0.0))

    async def step(self, action: Action) -> Observation:
        """Do one action and let half a second pass; after the page has ended the episode it changes nothing."""
        return await (self.look() if self._decided else self._within_time(self._act(action)))

    async def _act(self, action: Action) -> Observation:
        if isinstance(action, Wait):
            return await self._observe(max(0.0, min(action.seconds, _LONGEST_WAIT)) + _SECONDS_TO_SETTLE)
        await perform(self._page, action, self._viewport.scale)
        return await self._observe(_SECONDS_TO_SETTLE)

    async def _observe(self, seconds: float) -> Observation:
        """What the page shows after some seconds of its own time, when it has all that it asks the network for."""
        look = await self._look(seconds)
        deadline = monotonic() + _SECONDS_TO_LOAD
        # What a change of style asks for, such as the picture of an icon, it asks for when the style is looked at.
        while not (look.settled and self._traffic.quiet):
            if monotonic() > deadline:
                self._traffic.give_up()
                break
            await asyncio.sleep(_POLL_SECONDS)
            look = await self._look(0.0)
        self._decided = look.decided
        elements = await elements_of(self._page, self._viewport, look.rows)
        pixels = await screenshot(self._session)
        return observation(pixels, self._viewport.pixels, (title(self._task, self._viewport), *elements), self._task)

    async def _look(self, seconds: float) -> _Look:
        """All that there is to know in one question: asking takes longer than answering."""
        try:
            seen = await self._page.evaluate(_OBSERVE, round(seconds * 1000))
        except Error:  # it has gone to another address meanwhile, where no time is to pass
            seen = await self._page.evaluate(_OBSERVE, 0)
        return _Look(*json.loads(seen))

    async def score(self) -> float | None:
        """The page's own raw reward, 1 for solved and 0 for anything less; 0 while it is undecided."""
        return 1.0 if await self._within_time(self._page.evaluate(_RAW_REWARD)) == 1 else 0.0

    @property
    def decided(self) -> bool:
        """Whether the page had ended the episode when it was last looked at."""
        return self._decided

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

    def __init__(self, viewport: Viewport = VIEWPORT) -> None:
        """Start nothing yet; `viewport` is that of every page."""
        self._viewport = viewport
        self._browser = BrowserProcess(screen=viewport)

    async def __call__(self) -> MiniWobEnvironment:
        """A fresh context with the scripts that reading and pressing need."""
        context = await self._browser.new_context(self._viewport)
        try:
            await context.add_init_script(read_script("before_page"))
            await freeze_time(context)
            await seed_randomness(context, 0)
            await context.add_init_script(_observe_script())
            page = await context.new_page()
            return MiniWobEnvironment(context, page, await context.new_cdp_session(page), self._viewport)
        except Error as error:
            raise EnvironmentFailure(f"the browser failed: {error.message}", FailureClass.SETUP) from error

    async def close(self) -> None:
        """Stop the browser."""
        await self._browser.close()


def _observe_script() -> str:
    """The script that gives a page `window.__observe`."""
    script = files(__package__).joinpath("observe.js").read_text(encoding="utf-8")
    return f"({script})({read_script('settled')}, {read_script('elements')})"
