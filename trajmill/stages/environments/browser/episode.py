"""One episode in the browser: its context and tabs, its actions and observations, and the check of its goal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, CDPSession, Dialog, Download, Error, FileChooser, Page

from trajmill.schemas.actions import Action, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.stages.environments.browser import task
from trajmill.stages.environments.browser.dialog import BrowserDialog, DialogAnswer
from trajmill.stages.environments.browser.input import perform, perform_by_touch
from trajmill.stages.environments.browser.launch import Viewport
from trajmill.stages.environments.browser.page import (
    EPOCH_MS,
    PagePlace,
    PendingRequests,
    advance_clock,
    make_reproducible,
    observe_page,
    open_session,
    read_script,
    settle,
)
from trajmill.stages.environments.browser.proxy import origin_of
from trajmill.stages.environments.browser.task import BrowserGoal, BrowserStart

_MOST_TABS, _MOST_DOWNLOADS = 8, 16
_LARGEST_DOWNLOAD = 20_000_000
_LEAVE = "Leave site? Changes that you made may not be saved."
_TEXT = "(selector) => { const found = document.querySelector(selector); return found ? found.innerText : null; }"
_SCREEN, _PHONE, _PHONE_SCALE = Size(1280, 720), Size(360, 640), 2
_TICKS, _TICK_SECONDS = 3, 0.2
_LONGEST_WAIT = 10.0
_POLL_SECONDS = 0.02
_MOST_TRIES = 5


class OpenDialog(NamedTuple):
    content: BrowserDialog
    answer: Callable[[DialogAnswer], Awaitable[None]]


class Tabs:
    """The pages of one context. The newest is in front; when it closes, the page before it is."""

    def __init__(self, context: BrowserContext, viewport: Viewport, mobile: bool, files: Mapping[str, str]) -> None:
        self._context = context
        self._viewport = viewport
        self._mobile = mobile
        self._files = files
        self._pages: list[Page] = []
        self._sessions: dict[Page, CDPSession] = {}
        self.requests = PendingRequests()
        self._opening = 0
        self._saving: set[asyncio.Task[None]] = set()
        self._crashed = False
        self.downloads: dict[str, Path] = {}
        """Finished downloads by the names that the pages gave them; the browser deletes the files with the context."""
        self.dialogs: asyncio.Queue[OpenDialog] = asyncio.Queue()
        context.on("page", self._on_page)

    async def front(self) -> Page:
        """Return the page in front, a blank one if all are closed; raises EnvironmentFailure if a page has crashed."""
        if self._crashed:
            raise EnvironmentFailure("a page has crashed")
        return self._pages[-1] if self._pages else await self._context.new_page()

    async def session(self, page: Page) -> CDPSession:
        if page not in self._sessions:
            session = await open_session(page, self._viewport, self._mobile)
            # This event comes before the answer to the press that opens a window; the window itself comes later.
            session.on("Page.windowOpen", self._on_window_open)
            await session.send("Page.enable")
            self._sessions[page] = session
        return self._sessions[page]

    @property
    def is_idle(self) -> bool:
        return self.requests.is_empty and not self._saving and not self._opening

    def ignore_pending(self) -> None:
        self.requests.ignore_pending()
        self._opening = 0

    def close(self) -> None:
        for saving in self._saving:
            saving.cancel()

    def _on_window_open(self, event: dict[str, Any]) -> None:
        self._opening += 1

    def _on_page(self, page: Page) -> None:
        self._opening = max(0, self._opening - 1)
        if len(self._pages) >= _MOST_TABS:
            self._keep(asyncio.ensure_future(_close_page(page)))
            return
        self._pages.append(page)
        page.on("close", self._on_closed)
        page.on("crash", self._on_crash)
        page.on("dialog", self._on_dialog)
        page.on("filechooser", self._on_file_chooser)
        page.on("download", lambda download: self._keep(asyncio.ensure_future(self._save(download))))
        self.requests.watch(page)

    def _on_closed(self, page: Page) -> None:
        self._pages.remove(page)
        self._sessions.pop(page, None)
        self.requests.forget(page)

    def _on_crash(self, page: Page) -> None:
        self._crashed = True

    def _keep(self, work: asyncio.Task[None]) -> None:
        self._saving.add(work)
        work.add_done_callback(self._saving.discard)

    def _on_dialog(self, dialog: Dialog) -> None:
        async def answer(given: DialogAnswer) -> None:
            if given.button == 0:
                await (dialog.accept(given.typed) if dialog.type == "prompt" else dialog.accept())
            else:
                await dialog.dismiss()

        buttons = ("OK",) if dialog.type == "alert" else ("OK", "Cancel")
        text = _LEAVE if dialog.type == "beforeunload" else dialog.message
        typed = dialog.default_value if dialog.type == "prompt" else None
        self.dialogs.put_nowait(OpenDialog(BrowserDialog(text, buttons, typed), answer))

    def _on_file_chooser(self, chooser: FileChooser) -> None:
        if not self._files:
            return  # as if cancelled, of which a page is not told
        names = tuple(self._files)

        async def answer(given: DialogAnswer) -> None:
            if given.button < len(names):
                name = names[given.button]
                content = self._files[name].encode()
                await chooser.set_files({"name": name, "mimeType": "text/plain", "buffer": content})

        self.dialogs.put_nowait(OpenDialog(BrowserDialog("Choose a file", (*names, "Cancel")), answer))

    async def _save(self, download: Download) -> None:
        with suppress(Error):
            path = await download.path()
            if len(self.downloads) < _MOST_DOWNLOADS and path.stat().st_size <= _LARGEST_DOWNLOAD:
                self.downloads[download.suggested_filename] = path
            else:
                await download.delete()


async def _close_page(page: Page) -> None:
    with suppress(Error):
        await page.close()


async def goal_holds(goal: BrowserGoal, start: BrowserStart, page: Page, downloads: Mapping[str, Path]) -> bool:
    """Whether all conditions of a goal hold; raises EnvironmentFailure (`task`) for a selector that is no CSS."""
    actual: str | None
    for condition in goal.all:
        match condition:
            case task.UrlIs():
                actual = page.url
            case task.TextIs(selector=selector):
                actual = await _selected(page, _TEXT, selector)
            case task.ValueIs(selector=selector):
                actual = await _selected(page, read_script("value"), selector)
            case task.StorageIs(key=key):
                actual = await _stored(page, start, key)
            case task.DownloadIs(name=name):
                file = downloads.get(name)
                actual = file.read_text(encoding="utf-8", errors="replace") if file is not None else None
        if not condition.holds(actual):
            return False
    return True


async def _selected(page: Page, script: str, selector: str) -> str | None:
    try:
        text: str | None = await page.evaluate(script, selector)
    except Error as error:
        if "not a valid selector" in error.message:
            raise EnvironmentFailure(f"goal: {selector!r} is no CSS selector", FailureClass.TASK) from error
        raise
    return text


async def _stored(page: Page, start: BrowserStart, key: str) -> str | None:
    state = await page.context.storage_state()
    for place in state.get("origins", []):
        if place["origin"] == origin_of(start.url):
            return next((entry["value"] for entry in place["localStorage"] if entry["name"] == key), None)
    return None


class PageTimeouts(NamedTuple):
    load: float = 30.0
    turn: float = 30.0
    network: float = 3.0
    """Waiting for the network after an action; then the page is observed as it is."""


def viewport_of(start: BrowserStart) -> Viewport:
    default = _PHONE if start.mobile else _SCREEN
    return Viewport(Size(*start.viewport) if start.viewport else default, _PHONE_SCALE if start.mobile else 1)


class BrowserEpisode:
    """A context from the start URL of a query to its end; methods raise playwright's Error if the browser is gone."""

    secret = ""
    """Left out of the addresses that the agent sees."""

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
        return bool(self._goal.all)

    async def open(self, seed: int, now_ms: int = EPOCH_MS) -> Observation:
        """Open the start URL with a stopped clock; raises EnvironmentFailure if the server answers with an error."""
        self._context.set_default_timeout(self._timeouts.turn * 1000)
        await make_reproducible(self._context, seed, now_ms)
        page = await self.tabs.front()
        answer = await page.goto(self._start.url, wait_until="load", timeout=self._timeouts.load * 1000)
        if answer is not None and answer.status >= 400:
            raise EnvironmentFailure(f"the server answers {answer.status} {answer.status_text}")
        return await self.observe()

    async def place(self) -> PagePlace | None:
        """Return where the page is; None with several tabs or an open dialog, which no address restores."""
        page = await self.tabs.front()
        if len(self._context.pages) > 1 or not self.tabs.dialogs.empty():
            return None
        now: int = await page.evaluate("Date.now()")
        return PagePlace(page.url, now - round(_TICKS * _TICK_SECONDS * 1000))

    async def act(self, action: Action) -> Observation:
        page = await self.tabs.front()
        try:
            if isinstance(action, Wait):
                await advance_clock(self._context, max(0.0, min(action.seconds, _LONGEST_WAIT)))
            elif self._start.mobile:
                session = await self.tabs.session(page)
                await perform_by_touch(page, session, action, self.viewport.scale, self._start.url)
            else:
                await perform(page, action, self.viewport.scale)
        except Error:
            if not page.is_closed():  # a press may close its own tab
                raise
        return await self.observe()

    async def observe(self) -> Observation:
        await self._settle()
        for tries_left in reversed(range(_MOST_TRIES)):
            page = await self.tabs.front()
            try:
                return await observe_page(page, self.viewport, self.app, await self.tabs.session(page), self.secret)
            except Error:  # the page may have gone to another address meanwhile
                if not tries_left:
                    raise
                await asyncio.sleep(_POLL_SECONDS)
        raise AssertionError("the last try returns or raises")

    async def score(self) -> float:
        page = await self.tabs.front()
        return float(await goal_holds(self._goal, self._start, page, self.tabs.downloads))

    async def close(self) -> None:
        self.tabs.close()
        await self._context.close()

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
