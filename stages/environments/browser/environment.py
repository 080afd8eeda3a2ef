"""The browser as an environment: a query names the page that it starts on, and what must hold in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress

from playwright.async_api import Error

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.browser.episode import BrowserEpisode, Patience, viewport_of
from trajmill.stages.environments.browser.launch import BrowserProcess
from trajmill.stages.environments.browser.network.proxy import Fence, Place, place_of
from trajmill.stages.environments.browser.page.dialog import Pressed, Sheet, draw, elements_of, lay_out, react
from trajmill.stages.environments.browser.page.observation import observation, title
from trajmill.stages.environments.browser.tabs import Asked
from trajmill.stages.environments.browser.task.start_and_goal import BrowserStart, read_goal, read_start

_SECONDS_TO_CLOSE = 5.0
_MOST_BYTES = 200_000_000
"""How much one episode may receive."""


class BrowserEnvironment:
    """One context of a shared browser for each episode, on the network that its query names.

    Time stands still between actions and `Math.random` follows the seed, unless it is to be lively. A dialog of the
    page is a sheet with buttons; the page stands still until the agent has pressed one.
    """

    name = "browser"

    def __init__(self, browser: BrowserProcess, platform: Platform, patience: Patience, lively: bool) -> None:
        self._browser = browser
        self._platform = platform
        self._patience = patience
        self._lively = lively
        self._fence = Fence(_MOST_BYTES)
        self._proxy: str | None = None
        self._episode: BrowserEpisode | None = None
        self._turn: asyncio.Task[Observation] | None = None
        self._asked: Asked | None = None
        self._sheet: Sheet | None = None
        self._behind: bytes | None = None

    @property
    def platform(self) -> Platform:
        """Web, or phone for pages that see a phone."""
        return self._platform

    @property
    def refused(self) -> tuple[str, ...]:
        """What the episode's pages have asked for beyond the allow-list, as `host:port`."""
        return self._fence.refused

    async def reset(self, query: Query, seed: int) -> Observation:
        """Open the query's start URL in a context of its own; `seed` is that of the page's `Math.random`."""
        start, goal = read_start(query.start_state), read_goal(query.goal)
        await self.end_episode()
        self._proxy = self._proxy or await self._fence.open()
        self._fence.allow(_places(start))
        context = await self._browser.new_context(viewport_of(start), start.mobile, self._proxy)
        self._episode = BrowserEpisode(context, start, goal, self._patience, self._lively)
        try:
            return await self._see(self._episode, self._episode.open(seed), self._patience.load)
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"{start.url}: {error}", FailureClass.SETUP) from error

    async def step(self, action: Action) -> Observation:
        """Do one action; while a sheet is shown, only its buttons and its field can be used."""
        episode = self._under_way()
        if self._sheet is not None:
            reaction = react(self._sheet, action)
            if isinstance(reaction, Pressed):
                return await self._answer(episode, reaction)
            self._sheet = reaction
            return self._drawn(episode, reaction)
        if not episode.tabs.asked.empty():
            return self._ask(episode, episode.tabs.asked.get_nowait())
        return await self._see(episode, episode.act(action), self._patience.turn)

    async def score(self) -> float | None:
        """1 if all conditions of the goal hold, else 0; None if it has none. Open dialogs are dismissed first."""
        episode = self._under_way()
        if not episode.has_check:
            return None
        while self._sheet is not None:
            await self._answer(episode, Pressed(len(self._sheet.buttons) - 1, ""))
        try:
            async with asyncio.timeout(self._patience.turn):
                return await episode.score()
        except TimeoutError as error:
            raise EnvironmentFailure("the page does not answer the goal check") from error
        except Error as error:
            raise EnvironmentFailure(f"the browser failed: {_first_line(error)}") from error

    async def close(self) -> None:
        """Close the context and the way to the network."""
        await self.end_episode()
        self._proxy = None
        await self._fence.close()

    async def end_episode(self) -> None:
        """Close the context of the episode, if there is one; the network stays fenced."""
        episode, self._episode = self._episode, None
        turn, self._turn = self._turn, None
        self._asked = self._sheet = self._behind = None
        if turn is not None:
            turn.cancel()
            await asyncio.wait({turn})
        if episode is not None:
            # A context that does not close goes with its browser.
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(_SECONDS_TO_CLOSE):
                    await episode.close()

    def _under_way(self) -> BrowserEpisode:
        if self._episode is None:
            raise EnvironmentFailure("the browser was not reset")
        return self._episode

    async def _see(
        self, episode: BrowserEpisode, work: Coroutine[object, object, Observation], seconds: float
    ) -> Observation:
        """Wait for a turn to end, or for a question that holds it up.

        Raises:
            EnvironmentFailure: neither comes in time, or the browser is gone.
        """
        turn = self._turn = asyncio.create_task(work)
        asked = asyncio.create_task(episode.tabs.asked.get())
        try:
            await asyncio.wait({turn, asked}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return self._ask(episode, asked.result())
            if not turn.done():
                raise EnvironmentFailure("the page does not answer in time")
            self._turn = None
            seen = turn.result()
        except Error as error:
            raise EnvironmentFailure(f"the browser failed: {_first_line(error)}") from error
        finally:
            asked.cancel()
        self._behind = seen.screen.encode()
        return seen

    def _ask(self, episode: BrowserEpisode, asked: Asked) -> Observation:
        self._asked = asked
        self._sheet = lay_out(asked.question, episode.viewport.pixels, episode.viewport.scale)
        return self._drawn(episode, self._sheet)

    async def _answer(self, episode: BrowserEpisode, pressed: Pressed) -> Observation:
        asked, held_up = self._asked, self._turn
        assert asked is not None
        self._asked = self._sheet = None

        async def go_on() -> Observation:
            await asked.answer(pressed)
            if held_up is not None:
                await held_up
            return await episode.look()

        return await self._see(episode, go_on(), self._patience.turn)

    def _drawn(self, episode: BrowserEpisode, sheet: Sheet) -> Observation:
        size = episode.viewport.pixels
        elements = (title(episode.app, episode.viewport), *elements_of(sheet))
        return observation(draw(sheet, self._behind, size), size, elements, episode.app)


class BrowserFactory:
    """Makes browser environments, all in one browser; the browser is started anew when it has died."""

    def __init__(
        self, platform: Platform = Platform.WEB, patience: Patience = Patience(), lively: bool = False
    ) -> None:
        """Start nothing yet.

        Args:
            platform: of the environments: web, or phone for queries whose pages see a phone.
            patience: how long pages may take.
            lively: whether pages have the real time and randomness, as sites with logins of limited time need.
        """
        self._browser = BrowserProcess()
        self._platform = platform
        self._patience = patience
        self._lively = lively

    async def __call__(self) -> BrowserEnvironment:
        """An environment; its context is made at each reset."""
        return BrowserEnvironment(self._browser, self._platform, self._patience, self._lively)

    async def close(self) -> None:
        """Stop the browser."""
        await self._browser.close()


def _places(start: BrowserStart) -> frozenset[Place]:
    return frozenset(place for url in (start.url, *start.hosts) if (place := place_of(url)) is not None)


def _first_line(error: Error) -> str:
    return (error.message.splitlines() or ["no reason given"])[0]
