"""Links that leave a web site are transitions to the outside; the exploration goes on."""

import asyncio
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.browser.spec import BrowserSpec
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.graphs.base import OUTSIDE, Mark
from trajmill.stages.graphs.explore.base import ExploreBounds, ExploredApp
from trajmill.stages.graphs.explore.build import GraphBuilder
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.graphs.explore.explore import Exploration, Explored
from trajmill.stages.graphs.explore.journal import ExploreJournal

pytestmark = pytest.mark.browser

_PAGES = {
    "/": "<h1>Home</h1><a href='https://far.example/'>Far</a> <a href='http://near.example/'>Near</a> "
    "<a href='/help'>Help</a>",
    "/help": "<h1>Help</h1><form>PIN <input type='password' aria-label='PIN'><button>Enter</button></form>",
}


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(_PAGES.get(self.path, "").encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def test_links_that_leave_are_marked_and_pages_behind_a_log_in_too(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    app = ExploredApp(name="site", platform=Platform.WEB, start_state={"url": url})

    async def run() -> Explored:
        pool = EnvironmentPool(BrowserSpec().factory(Platform.WEB), 1)
        try:
            journal = ExploreJournal(tmp_path / "site.jsonl", app)
            exploration = Exploration(pool, app, ExploreBounds(), packaged_deny_list(), journal, lambda seen: None)
            return await exploration.run(1)
        finally:
            await pool.close()

    try:
        explored = asyncio.run(run())
    finally:
        server.shutdown()
    graph = GraphBuilder(app, explored.book, explored.trials, packaged_deny_list()).build({})
    leaving = {each.by: each.address for _, each in graph.transitions() if each.to == OUTSIDE}
    assert explored.complete
    assert leaving == {"far": "far.example:443", "near": "near.example:80"}
    assert Mark.LEAVES in graph.pages["start"].elements["far"].marks
    assert graph.pages["help"].marks == (Mark.NEEDS_LOGIN,)
    assert not any(trial.steps[-1].operation == "replace" for trial in explored.trials)
