"""The browser as an environment: a query names the start page and the conditions of its goal."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial

from playwright.async_api import Error

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import Patience, begun, make_observation
from trajmill.stages.environments.browser.dialog import (
    DialogAnswer,
    DialogLayout,
    dialog_elements,
    draw_dialog,
    lay_out_dialog,
    use_dialog,
)
from trajmill.stages.environments.browser.episode import BrowserEpisode, OpenDialog, PageTimeouts, viewport_of
from trajmill.stages.environments.browser.launch import BrowserProcess
from trajmill.stages.environments.browser.page import EPOCH_MS, PagePlace, first_line, title_element, within_time
from trajmill.stages.environments.browser.proxy import AllowListProxy, HostPort, host_port_of, origin_of
from trajmill.stages.environments.browser.task import BrowserGoal, BrowserStart
from trajmill.stages.environments.tasks import read_part

_SECONDS_TO_CLOSE = 5.0
_MOST_BYTES = 200_000_000


class BrowserEnvironment:
    """One context of a shared browser for each episode; it reaches only the hosts that the query names.

    Time stands still between actions and `Math.random` follows the seed. A dialog of the page is drawn over it; the
    page waits until the agent has pressed one of the dialog's buttons.
    """

    name = "browser"

    def __init__(self, browser: BrowserProcess, platform: Platform, timeouts: PageTimeouts, patience: Patience) -> None:
        self.platform = platform
        self._browser = browser
        self._timeouts, self._patience = timeouts, patience
        self._host: HostPort | None = None
        self._proxy = AllowListProxy(_MOST_BYTES)
        self._proxy_address: str | None = None
        self._episode: BrowserEpisode | None = None
        self._turn: asyncio.Task[Observation] | None = None
        self._dialog: OpenDialog | None = None
        self._layout: DialogLayout | None = None
        self._page_png: bytes | None = None

    @property
    def refused(self) -> tuple[str, ...]:
        return self._proxy.refused

    async def reset(self, query: Query, seed: int) -> Observation:
        start = read_part(BrowserStart.model_validate_json, query.start_state, "start state")
        goal = read_part(BrowserGoal.model_validate_json, query.goal, "goal")
        return await self.open(start, goal, seed)

    async def open(
        self, start: BrowserStart, goal: BrowserGoal, seed: int, secret: str = "", now_ms: int = EPOCH_MS
    ) -> Observation:
        """Begin an episode when the site answers; `secret` is left out of the addresses that the agent sees."""
        work = partial(self._open, start, goal, seed, secret, now_ms)
        return await self._patience.outlast(origin_of(start.url), work)

    async def _open(self, start: BrowserStart, goal: BrowserGoal, seed: int, secret: str, now_ms: int) -> Observation:
        await self.end_episode()
        self._proxy_address = self._proxy_address or await self._proxy.open()
        self._host = host_port_of(start.url)
        hosts = (self._host, *map(host_port_of, start.hosts))
        self._proxy.allow(frozenset(host for host in hosts if host is not None))
        context = await self._browser.new_context(viewport_of(start), start.mobile, self._proxy_address)
        self._episode = BrowserEpisode(context, start, goal, self._timeouts)
        self._episode.secret = secret
        try:
            return await self._observe_turn(self._episode, self._episode.open(seed, now_ms), self._timeouts.load)
        except EnvironmentFailure as error:
            if away := self._away(self._episode):
                raise EnvironmentFailure(away, FailureClass.UNREACHABLE) from error
            raise EnvironmentFailure(f"{start.url}: {error}", FailureClass.SETUP) from error

    async def step(self, action: Action) -> Observation:
        seen = await self._step(action)
        if away := self._away(begun(self._episode)):
            raise EnvironmentFailure(f"the server stopped answering during the episode ({away})")
        return seen

    async def place(self) -> PagePlace | None:
        """Return where the page is; None if its address does not restore it."""
        if self._layout is not None:
            return None
        return await within_time(begun(self._episode).place(), self._timeouts.turn, "the page")

    async def _step(self, action: Action) -> Observation:
        episode = begun(self._episode)
        if self._layout is not None:
            used = use_dialog(self._layout, action)
            if isinstance(used, DialogAnswer):
                return await self._answer(episode, used)
            self._layout = used
            return self._draw(episode, used)
        if not episode.tabs.dialogs.empty():
            return self._show(episode, episode.tabs.dialogs.get_nowait())
        return await self._observe_turn(episode, episode.act(action), self._timeouts.turn)

    async def score(self) -> float | None:
        episode = begun(self._episode)
        if not episode.has_check:
            return None
        while self._layout is not None:
            await self._answer(episode, DialogAnswer(len(self._layout.buttons) - 1, ""))
        return await within_time(episode.score(), self._timeouts.turn, "the page")

    async def close(self) -> None:
        await self.end_episode()
        self._proxy_address = None
        await self._proxy.close()

    async def end_episode(self) -> None:
        episode, self._episode = self._episode, None
        turn, self._turn = self._turn, None
        self._dialog = self._layout = self._page_png = None
        if turn is not None:
            turn.cancel()
            await asyncio.wait({turn})
        if episode is not None:
            # A context that does not close ends with its browser.
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(_SECONDS_TO_CLOSE):
                    await episode.close()

    def _away(self, episode: BrowserEpisode) -> str:
        """Why the site of an episode counts as away; empty if it answers."""
        return self._proxy.unreachable.get(self._host, episode.tabs.requests.away)

    async def _observe_turn(
        self, episode: BrowserEpisode, work: Coroutine[object, object, Observation], seconds: float
    ) -> Observation:
        turn = self._turn = asyncio.create_task(work)
        dialog = asyncio.create_task(episode.tabs.dialogs.get())
        try:
            await asyncio.wait({turn, dialog}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if dialog.done():
                return self._show(episode, dialog.result())
            if not turn.done():
                raise EnvironmentFailure("the page does not answer in time")
            self._turn = None
            observation = turn.result()
        except Error as error:
            raise EnvironmentFailure(f"the browser failed: {first_line(error)}") from error
        finally:
            dialog.cancel()
        self._page_png = observation.screen.encode()
        return observation

    def _show(self, episode: BrowserEpisode, dialog: OpenDialog) -> Observation:
        self._dialog = dialog
        self._layout = lay_out_dialog(dialog.content, episode.viewport.pixels, episode.viewport.scale)
        return self._draw(episode, self._layout)

    async def _answer(self, episode: BrowserEpisode, answer: DialogAnswer) -> Observation:
        dialog, interrupted = self._dialog, self._turn
        assert dialog is not None
        self._dialog = self._layout = None

        async def go_on() -> Observation:
            await dialog.answer(answer)
            if interrupted is not None:
                await interrupted
            return await episode.observe()

        return await self._observe_turn(episode, go_on(), self._timeouts.turn)

    def _draw(self, episode: BrowserEpisode, layout: DialogLayout) -> Observation:
        size = episode.viewport.pixels
        elements = (title_element(episode.app, episode.viewport), *dialog_elements(layout))
        return make_observation(draw_dialog(layout, self._page_png, size), size, elements, episode.app)


class BrowserFactory:
    """Makes browser environments that share one browser; a browser that has died is started again."""

    def __init__(
        self, platform: Platform = Platform.WEB, timeouts: PageTimeouts = PageTimeouts(), waits: Patience = Patience()
    ) -> None:
        """Start nothing yet; the platform is phone for queries whose pages are shown as on a phone."""
        self._browser = BrowserProcess()
        self._platform = platform
        self._timeouts, self._patience = timeouts, waits

    async def __call__(self) -> BrowserEnvironment:
        return BrowserEnvironment(self._browser, self._platform, self._timeouts, self._patience)

    async def close(self) -> None:
        await self._browser.close()
