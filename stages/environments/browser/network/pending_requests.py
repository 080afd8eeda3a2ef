"""What pages wait for from the network."""

from __future__ import annotations

from playwright.async_api import Page, Request

_ENDLESS = ("websocket", "eventsource", "ping")


class Traffic:
    """The requests of some pages that have begun and not ended; those that never end by their nature do not count."""

    def __init__(self) -> None:
        self._loading: dict[Request, Page] = {}

    @property
    def quiet(self) -> bool:
        """Whether no request is under way."""
        return not self._loading

    def watch(self, page: Page) -> None:
        """Follow a page from now on."""
        page.on("request", lambda request: self._begins(page, request))
        page.on("requestfinished", self._ends)
        page.on("requestfailed", self._ends)

    def forget(self, page: Page) -> None:
        """Nothing of a page that has closed is waited for."""
        self._loading = {request: by for request, by in self._loading.items() if by is not page}

    def give_up(self) -> None:
        """Count what is under way as lasting for ever, so that nobody waits for it again."""
        self._loading.clear()

    def _begins(self, page: Page, request: Request) -> None:
        if request.resource_type not in _ENDLESS:
            self._loading[request] = page

    def _ends(self, request: Request) -> None:
        self._loading.pop(request, None)
