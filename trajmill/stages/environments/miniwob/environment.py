"""A MiniWoB++ page as an environment: the query's seed decides the instruction, the page's reward is the check."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Sequence
from functools import cache, partial
from importlib.resources import files
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from miniwob.fields import FIELD_EXTRACTORS
from playwright.async_api import BrowserContext, CDPSession, Error, Page

from trajmill.schemas.actions import Action, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.stages.environments.base import make_observation
from trajmill.stages.environments.browser.input import perform
from trajmill.stages.environments.browser.launch import BrowserProcess, Viewport, close_context
from trajmill.stages.environments.browser.page import (
    PendingRequests,
    advance_clock,
    frame_elements,
    make_reproducible,
    read_script,
    screenshot,
    title_element,
    within_time,
)
from trajmill.stages.environments.miniwob.pages import pages_folder
from trajmill.stages.environments.tasks import ImportedQueries, ask_at_seeds, joined, own_query

T = TypeVar("T")

VIEWPORT = Viewport(Size(160, 210), 3)
"""The task area of every page, enlarged so that a vision model can read it."""
_SECONDS_PER_CALL = 20.0
# Page time after the start and after each action. With these, waits of 0.1 s show each light of the page `simon-says`,
# which goes on every 0.6 s for 0.25 s.
_SECONDS_TO_START, _SECONDS_TO_SETTLE = 0.7, 0.5
_SECONDS_TO_LOAD, _POLL_SECONDS = 3.0, 0.01
_LONGEST_WAIT = 10.0
_OBSERVE = "(milliseconds) => window.__observe(milliseconds)"
_RAW_REWARD = "window.WOB_RAW_REWARD_GLOBAL"
_MAKER = "miniwob"
_AT_ONCE = 4


@cache
def _script(name: str) -> str:
    return files(__package__).joinpath(f"{name}.js").read_text(encoding="utf-8")


class PageTask(NamedTuple):
    instruction: str
    fields: tuple[tuple[str, str], ...]


class _PageState(NamedTuple):
    settled: bool
    decided: bool
    rows: list[Any]


class MiniWobEnvironment:
    """A browser context for MiniWoB++ pages; `Query.start_state` is `{"page": ..., "seed": ...}`."""

    platform = Platform.WEB
    name = "miniwob"

    def __init__(self, context: BrowserContext, page: Page, session: CDPSession, viewport: Viewport) -> None:
        self._context = context
        self._page = page
        self._session = session
        self._viewport = viewport
        self._requests = PendingRequests()
        self._requests.watch(page)
        self._task = ""
        self.decided = False

    async def reset(self, query: Query, seed: int) -> Observation:
        start = json.loads(query.start_state)
        await self.start(start["page"], start["seed"])
        return await self.observe()

    async def start(self, page: str, seed: int) -> PageTask:
        """Start an episode; raises EnvironmentFailure (`setup`) if there is no such page, or it does not start."""
        path = pages_folder() / f"{page}.html"
        if path.parent != pages_folder() or not path.is_file():
            raise EnvironmentFailure(f"MiniWoB++ has no page {page!r}", FailureClass.SETUP)
        self._task, self.decided = page, False
        try:
            async with asyncio.timeout(_SECONDS_PER_CALL):
                # A page that is not loaded again keeps the changes of the last episode.
                await self._page.goto(path.as_uri())
                await self._page.mouse.move(0, 0)
                answer = await self._page.evaluate(_script("start"), seed)
                await advance_clock(self._context, _SECONDS_TO_START)
        except TimeoutError as error:
            raise EnvironmentFailure(f"MiniWoB++ page {page} does not start", FailureClass.SETUP) from error
        except Error as error:
            raise EnvironmentFailure(f"MiniWoB++ page {page}: {error.message}", FailureClass.SETUP) from error
        fields = page_fields(page, answer["utterance"], answer["fields"])
        return PageTask(" ".join(str(answer["utterance"]).split()), fields)

    async def observe(self) -> Observation:
        return await self._within_time(self._observe(0.0))

    async def step(self, action: Action) -> Observation:
        """Do one action and let half a second pass; after the page has ended the episode it changes nothing."""
        return await (self.observe() if self.decided else self._within_time(self._act(action)))

    async def _act(self, action: Action) -> Observation:
        if isinstance(action, Wait):
            return await self._observe(max(0.0, min(action.seconds, _LONGEST_WAIT)) + _SECONDS_TO_SETTLE)
        await perform(self._page, action, self._viewport.scale)
        return await self._observe(_SECONDS_TO_SETTLE)

    async def _observe(self, seconds: float) -> Observation:
        state = await self._advance(seconds)
        deadline = monotonic() + _SECONDS_TO_LOAD
        # A changed style requests its files, such as an icon, only when the style is computed: that is, by reading it.
        while not (state.settled and self._requests.is_empty):
            if monotonic() > deadline:
                self._requests.ignore_pending()
                break
            await asyncio.sleep(_POLL_SECONDS)
            state = await self._advance(0.0)
        self.decided = state.decided
        elements = await frame_elements(self._page, self._viewport, state.rows)
        png = await screenshot(self._session)
        head = title_element(self._task, self._viewport)
        return make_observation(png, self._viewport.pixels, (head, *elements), self._task)

    async def _advance(self, seconds: float) -> _PageState:
        """Let the page's clock advance and read the page, in one call: a call takes longer than its work."""
        try:
            answer = await self._page.evaluate(_OBSERVE, round(seconds * 1000))
        except Error:  # the page has gone to another address meanwhile, where no time has to pass
            answer = await self._page.evaluate(_OBSERVE, 0)
        return _PageState(*json.loads(answer))

    async def score(self) -> float | None:
        return 1.0 if await self._within_time(self._page.evaluate(_RAW_REWARD)) == 1 else 0.0

    async def close(self) -> None:
        await close_context(self._context)

    async def _within_time(self, work: Awaitable[T]) -> T:
        return await within_time(work, _SECONDS_PER_CALL, f"MiniWoB++ page {self._task}")


class MiniWobFactory:
    def __init__(self, viewport: Viewport = VIEWPORT) -> None:
        self._viewport = viewport
        self._browser = BrowserProcess(screen=viewport)

    async def __call__(self) -> MiniWobEnvironment:
        context = await self._browser.new_context(self._viewport)
        try:
            await make_reproducible(context, 0)
            observe = f"({_script('observe')})({read_script('settled')}, {read_script('elements')})"
            await context.add_init_script(observe)
            page = await context.new_page()
            return MiniWobEnvironment(context, page, await context.new_cdp_session(page), self._viewport)
        except Error as error:
            raise EnvironmentFailure(f"the browser failed: {error.message}", FailureClass.SETUP) from error

    async def close(self) -> None:
        await self._browser.close()


async def import_queries(
    pages: Sequence[str], splits: Sequence[Split], run_seed: int, origin: Origin
) -> ImportedQueries:
    pages = tuple(dict.fromkeys(pages))
    factory = MiniWobFactory()
    imported: dict[str, ImportedQueries] = {}
    waiting = iter(pages)

    async def ask(environment: MiniWobEnvironment, page: str, seed: int) -> Query:
        instruction, fields = await environment.start(page, seed)
        start = json.dumps({"page": page, "seed": seed, "fields": fields})
        described = {"pages": (page,), "page_descriptions": ("A MiniWoB++ task page.",), "phrasing": _MAKER}
        return own_query(Platform.WEB, page, instruction, start, origin, _MAKER, **described)

    async def ask_pages() -> None:
        environment = await factory()
        for page in waiting:
            at_seed = partial(ask, environment, page)
            imported[page] = await ask_at_seeds(at_seed, page, splits, run_seed, origin, _MAKER)

    try:
        await asyncio.gather(*(ask_pages() for _ in range(min(_AT_ONCE, len(pages)))))
    finally:
        await factory.close()
    return joined([imported[page] for page in pages])


def page_fields(page: str, utterance: str, given: dict[str, object] | None) -> tuple[tuple[str, str], ...]:
    """Return the fields of an instruction: those that the page gives, or what the wheel reads in it."""
    if given is not None:
        return tuple((name, str(value)) for name, value in given.items())
    extractor = FIELD_EXTRACTORS.get(page)
    if extractor is None:
        return ()
    try:
        return tuple((str(name), str(value)) for name, value in extractor(utterance))
    except ValueError:  # the wheel's patterns know most wordings of a page, not all
        return ()
