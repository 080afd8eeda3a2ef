"""Tracks the tabs of a browser context, and their dialogs, file choosers, downloads and crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from playwright.async_api import BrowserContext, CDPSession, Dialog, Download, Error, FileChooser, Page

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.stages.environments.browser.launch import Viewport
from trajmill.stages.environments.browser.network.pending_requests import PendingRequests
from trajmill.stages.environments.browser.page.dialog import BrowserDialog, DialogAnswer
from trajmill.stages.environments.browser.page.observation import open_session

_MOST_TABS, _MOST_DOWNLOADS = 8, 16
_LARGEST_DOWNLOAD = 20_000_000
_LEAVE = "Leave site? Changes that you made may not be saved."


class OpenDialog(NamedTuple):
    """A dialog that a page has opened, and how to answer it."""

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
        self._requests = PendingRequests()
        self._opening = 0
        self._saving: set[asyncio.Task[None]] = set()
        self._crashed = False
        self.downloads: dict[str, Path] = {}
        """Finished downloads by the names that the pages gave them; the browser deletes the files with the context."""
        self.dialogs: asyncio.Queue[OpenDialog] = asyncio.Queue()
        context.on("page", self._on_page)

    async def front(self) -> Page:
        """The page in front; a blank one if all are closed.

        Raises:
            EnvironmentFailure: a page has crashed.
            playwright.async_api.Error: the browser is gone.
        """
        if self._crashed:
            raise EnvironmentFailure("a page has crashed")
        return self._pages[-1] if self._pages else await self._context.new_page()

    async def session(self, page: Page) -> CDPSession:
        """The DevTools session of a page, for screenshots and touch.

        Raises:
            playwright.async_api.Error: the page is gone.
        """
        if page not in self._sessions:
            session = await open_session(page, self._viewport, self._mobile)
            # This event comes before the answer to the press that opens a window; the window itself comes later.
            session.on("Page.windowOpen", self._on_opening)
            await session.send("Page.enable")
            self._sessions[page] = session
        return self._sessions[page]

    @property
    def is_idle(self) -> bool:
        """Whether no request is pending, no window opens and no file is saved."""
        return self._requests.is_empty and not self._saving and not self._opening

    def ignore_pending(self) -> None:
        """Forget the pending requests and windows, which may never end, so that they are not waited for again."""
        self._requests.ignore_pending()
        self._opening = 0

    def close(self) -> None:
        """Stop saving files; the context closes its pages itself."""
        for saving in self._saving:
            saving.cancel()

    def _on_opening(self, event: dict[str, Any]) -> None:
        self._opening += 1

    def _on_page(self, page: Page) -> None:
        self._opening = max(0, self._opening - 1)
        if len(self._pages) >= _MOST_TABS:
            task = asyncio.ensure_future(_close(page))
            self._keep(task)
            return
        self._pages.append(page)
        page.on("close", self._on_closed)
        page.on("crash", self._on_crash)
        page.on("dialog", self._on_dialog)
        page.on("filechooser", self._on_file_chooser)
        page.on("download", lambda download: self._keep(asyncio.ensure_future(self._save(download))))
        self._requests.watch(page)

    def _on_closed(self, page: Page) -> None:
        self._pages.remove(page)
        self._sessions.pop(page, None)
        self._requests.forget(page)

    def _on_crash(self, page: Page) -> None:
        self._crashed = True

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

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


async def _close(page: Page) -> None:
    with suppress(Error):
        await page.close()
