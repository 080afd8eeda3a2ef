"""Tracks the requests that pages wait for."""

from __future__ import annotations

from playwright.async_api import Page, Request

_ENDLESS = ("websocket", "eventsource", "ping")


class PendingRequests:
    """The requests of some pages that have begun and not ended; kinds that never end do not count."""

    def __init__(self) -> None:
        self._pending: dict[Request, Page] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no request is pending."""
        return not self._pending

    def watch(self, page: Page) -> None:
        """Follow a page from now on."""
        page.on("request", lambda request: self._begins(page, request))
        page.on("requestfinished", self._ends)
        page.on("requestfailed", self._ends)

    def forget(self, page: Page) -> None:
        """Forget the requests of a page that has closed."""
        self._pending = {request: by for request, by in self._pending.items() if by is not page}

    def ignore_pending(self) -> None:
        """Forget the pending requests, which may never end, so that they are not waited for again."""
        self._pending.clear()

    def _begins(self, page: Page, request: Request) -> None:
        if request.resource_type not in _ENDLESS:
            self._pending[request] = page

    def _ends(self, request: Request) -> None:
        self._pending.pop(request, None)
