"""Small web applications with a state API, a task list, a shop and a phone, and the servers that can be wrong about it.

`python -m tests.stages.environments.state_api.apps --port 8170` serves the tasks there, and the shop one port above.
"""

import argparse
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from tests import http_server
from tests.http_server import QuietHandler


def _page(title: str) -> str:
    folder = Path(__file__).with_name("pages")
    page, script = (folder / "page.html").read_text(), (folder / f"{title.lower()}.js").read_text()
    return page.replace("TITLE", title).replace("SCRIPT", script)


TASK_LIST, SHOP, PHONE = map(_page, ("Tasks", "Shop", "Phone"))
Sessions = dict[str, dict[str, Any]]


class StateApi(QuietHandler):
    """Speaks the protocol for one page; a subclass may be wrong about it."""

    page = TASK_LIST
    url: str
    sessions: ClassVar[Sessions] = {}

    def reply(self) -> None:
        parts = urlsplit(self.path)
        sid = parse_qs(parts.query).get("sid", [""])[0]
        if parts.path in ("/go", "/post"):
            self.answer(self.api(parts.path, sid), Content_Type="application/json")
        elif parts.path == "/":
            self.answer(self.page.encode(), Content_Type="text/html; charset=utf-8")
        else:
            self.answer(status=404)

    def api(self, path: str, sid: str) -> bytes:
        if path == "/post":
            self.change(sid, json.loads(self.body))
            return b'{"success": true}'
        held = self.sessions.get(sid, {})
        initial, current = held.get("initial"), held.get("current")
        return json.dumps({"initial_state": initial, "current_state": current, "state_diff": {}}).encode()

    def change(self, sid: str, order: dict[str, Any]) -> None:
        with _LOCK:
            held = self.sessions.setdefault(sid, {})
            if order["action"] == "reset":
                held["current"] = held["initial"]
            else:
                held["current"] = order["state"]
                held["initial"] = order["state"] if order["action"] == "set" else held.get("initial", order["state"])


_LOCK = threading.Lock()


@contextmanager
def serving(page: str = TASK_LIST, kind: type[StateApi] = StateApi, port: int = 0) -> Iterator[type[StateApi]]:
    """Serve an application; yields its handler, whose `url` has the address."""
    handler: type[StateApi] = type("Served", (kind,), {"page": page, "sessions": {}})
    with http_server.serving(handler, port) as handler.url:
        yield handler


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8170)
    port = options.parse_args().port
    with ExitStack() as opened:
        for page, at in ((TASK_LIST, port), (SHOP, port + 1)):
            print(opened.enter_context(serving(page, port=at)).url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
