"""A small real web site on loopback, with all that can get in the way of an agent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import http_server

_STYLE = "<style>body { font: 16px sans-serif } button, a, input, select { display: block; margin: 8px }</style>"
_PAGES = Path(__file__).with_name("pages")


@contextmanager
def serving(pages: Path = _PAGES) -> Iterator[str]:
    """The address of the site of these pages, by default this one, while it is up."""
    stopped = threading.Event()
    shown = {f"/{file.stem}".removesuffix("index"): _STYLE + file.read_text() for file in pages.iterdir()}

    class Handler(http_server.QuietHandler):
        def reply(self) -> None:
            if self.path == "/never":
                stopped.wait()
            elif self.path == "/away":
                self.answer(status=302, Location="http://localhost:8999/away")
            else:
                known, page = self.path in shown, shown.get(self.path, "<h1>Not found</h1>")
                body = f"<!doctype html><html lang=en>{page}".encode()
                self.answer(body, 200 if known else 404, Content_Type="text/html; charset=utf-8")

    with http_server.serving(Handler) as url:
        try:
            yield url
        finally:
            stopped.set()
