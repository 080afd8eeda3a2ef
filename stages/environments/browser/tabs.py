"""What happens in a context besides its pages' own doing: tabs, dialogs, file choosers, downloads, crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from playwright.async_api import BrowserContext, CDPSession, Dialog, Download, Error, FileChooser, Page

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.stages.environments.browser.launch import Viewport
from trajmill.stages.environments.browser.network.pending_requests import Traffic
from trajmill.stages.environments.browser.page.dialog import Pressed, Question
from trajmill.stages.environments.browser.page.observation import open_session

_MOST_TABS, _MOST_DOWNLOADS = 8, 16
_LARGEST_DOWNLOAD = 20_000_000
_LEAVE = "Leave site? Changes that you made may not be saved."


class Asked(NamedTuple):
    """A question that is open, and how to answer it."""

    question: Question
    answer: Callable[[Pressed], Awaitable[None]]
    blocks: bool
    """Whether the page stands still until it is answered."""


class Tabs:
    """The pages of one context; the newest is in front, and when it closes the one before it."""

    def __init__(self, context: BrowserContext, viewport: Viewport, mobile: bool, files: Mapping[str, str]) -> None:
        self._context = context
        self._viewport = viewport
        self._mobile = mobile
        self._files = files
        self._pages: list[Page] = []
        self._sessions: dict[Page, CDPSession] = {}
        self._traffic = Traffic()
        self._opening = 0
        self._saving: set[asyncio.Task[None]] = set()
        self._crashed = False
        self.downloads: dict[str, Path] = {}
        """Finished downloads by the names that the pages gave them; the browser deletes them with the context."""
        self.asked: asyncio.Queue[Asked] = asyncio.Queue()
        context.on("page", self._opened)

    async def front(self) -> Page:
        """The page in front; a blank one if all have been closed.

        Raises:
            EnvironmentFailure: a page has crashed.
            playwright.async_api.Error: the browser is gone.
        """
        if self._crashed:
            raise EnvironmentFailure("a page has crashed")
        return self._pages[-1] if self._pages else await self._context.new_page()

    async def session(self, page: Page) -> CDPSession:
        """The session of a page for screenshots and touch.

        Raises:
            playwright.async_api.Error: the page is gone.
        """
        if page not in self._sessions:
            session = await open_session(page, self._viewport, self._mobile)
            # Comes before the answer to the press that opens a window, the window itself comes some time after it.
            session.on("Page.windowOpen", self._opening_one)
            await session.send("Page.enable")
            self._sessions[page] = session
        return self._sessions[page]

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way: no request, no window that opens, no file that is saved."""
        return self._traffic.quiet and not self._saving and not self._opening

    def give_up(self) -> None:
        """Count what is under way as lasting for ever, so that nobody waits for it again."""
        self._traffic.give_up()
        self._opening = 0

    def close(self) -> None:
        """Stop what is still being saved; the context closes its pages itself."""
        for saving in self._saving:
            saving.cancel()

    def _opening_one(self, event: dict[str, Any]) -> None:
        self._opening += 1

    def _opened(self, page: Page) -> None:
        self._opening = max(0, self._opening - 1)
        if len(self._pages) >= _MOST_TABS:
            task = asyncio.ensure_future(_close(page))
            self._keep(task)
            return
        self._pages.append(page)
        page.on("close", self._closed)
        page.on("crash", self._has_crashed)
        page.on("dialog", self._dialog)
        page.on("filechooser", self._file_chooser)
        page.on("download", lambda download: self._keep(asyncio.ensure_future(self._save(download))))
        self._traffic.watch(page)

    def _closed(self, page: Page) -> None:
        self._pages.remove(page)
        self._sessions.pop(page, None)
        self._traffic.forget(page)

    def _has_crashed(self, page: Page) -> None:
        self._crashed = True

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    def _dialog(self, dialog: Dialog) -> None:
        async def answer(pressed: Pressed) -> None:
            if pressed.button == 0:
                await (dialog.accept(pressed.typed) if dialog.type == "prompt" else dialog.accept())
            else:
                await dialog.dismiss()

        buttons = ("OK",) if dialog.type == "alert" else ("OK", "Cancel")
        text = _LEAVE if dialog.type == "beforeunload" else dialog.message
        typed = dialog.default_value if dialog.type == "prompt" else None
        self.asked.put_nowait(Asked(Question(text, buttons, typed), answer, blocks=True))

    def _file_chooser(self, chooser: FileChooser) -> None:
        if not self._files:
            return  # as if cancelled: a page is not told of that
        names = tuple(self._files)

        async def answer(pressed: Pressed) -> None:
            if pressed.button < len(names):
                name = names[pressed.button]
                content = self._files[name].encode()
                await chooser.set_files({"name": name, "mimeType": "text/plain", "buffer": content})

        self.asked.put_nowait(Asked(Question("Choose a file", (*names, "Cancel")), answer, blocks=False))

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
