import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.failures import failing
from tests.http_server import QuietHandler, serving
from tests.stages.environments.browser.playing import ORIGIN, PATIENT, SharedBrowser, a_query, element, press, texts
from tests.stages.environments.processes import descendants, eventually, named, until_gone
from tests.stages.rollout.rolling import rolled_out
from tests.stages.rollout.toy import ToyAgent
from trajmill.schemas.actions import Action, Click, Terminate, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.base import Environment, Patience
from trajmill.stages.environments.browser.environment import BrowserEnvironment, BrowserFactory
from trajmill.stages.environments.browser.episode import PageTimeouts
from trajmill.stages.queries.walk import QueryWalker

pytestmark = pytest.mark.browser
VERY_SHORT = PageTimeouts(load=5.0, turn=5.0, network=0.5)
start_browser = partial(BrowserFactory, timeouts=VERY_SHORT)


async def failure_of(query: Query, browser: SharedBrowser, kill: str = "") -> FailureClass:
    """The class of the failure at the start of a query, at the press of its button, or after a process is killed."""
    environment = await browser.factory()
    with pytest.raises(EnvironmentFailure) as failure:
        seen = await environment.reset(query, 1)
        for process in named(kill) if kill else ():
            os.kill(process, signal.SIGKILL)
        await environment.step(press(element(seen, "button")))
    await environment.close()
    assert "\n" not in str(failure.value)
    return failure.value.failure_class


async def test_a_start_page_that_does_not_load_is_a_setup_failure_and_one_that_breaks_is_the_environments(
    site: str, browser: SharedBrowser
) -> None:
    for url in (f"{site}/never", f"{site}/no-such-page"):
        assert await failure_of(a_query(url), browser) is FailureClass.SETUP
    assert await failure_of(a_query(f"{site}/hangs"), browser) is FailureClass.ENVIRONMENT
    assert await failure_of(a_query(f"{site}/"), browser, kill="--type=renderer") is FailureClass.ENVIRONMENT


async def test_a_query_that_says_nonsense_is_a_failure_of_the_task(browser: SharedBrowser) -> None:
    for query in (
        a_query("file:///etc/hosts"),
        a_query("about:blank").model_copy(update={"start_state": "{}"}),
        a_query("http://127.0.0.1:9/", nonsense=1),
        a_query("http://127.0.0.1:9/", ({"check": "text", "selector": "p"},)),
        a_query("http://127.0.0.1:9/", ({"check": "colour", "selector": "p", "equals": "red"},)),
    ):
        assert await failure_of(query, browser) is FailureClass.TASK


async def test_an_invalid_selector_fails_the_task_and_is_never_run(site: str, environment: BrowserEnvironment) -> None:
    selector = "p'); document.body.textContent = 'run'; ('"
    await environment.reset(a_query(f"{site}/", ({"check": "text", "selector": selector, "equals": "x"},)), 1)
    with failing(FailureClass.TASK):
        await environment.score()
    shown = texts(await environment.step(Wait(seconds=0.1)))
    assert "Buy" in shown and "run" not in shown


async def test_a_killed_browser_or_driver_voids_the_episode_and_the_next_ones_work_in_one_browser(site: str) -> None:
    before, drivers = descendants(os.getpid()), set(named("playwright/driver/node"))
    factory = BrowserFactory(timeouts=PATIENT)
    classes = []
    try:
        for victim in ("chromium-headless-shell", "playwright/driver/node"):
            environment = await factory()
            await environment.reset(a_query(f"{site}/"), 1)
            for process in named(victim):
                with suppress(ProcessLookupError):  # Others end with the browser.
                    os.kill(process, signal.SIGKILL)
            with pytest.raises(EnvironmentFailure) as failure:
                await environment.step(Click(x=1, y=1))
            classes.append(failure.value.failure_class)
            await environment.close()
        fresh = [await factory() for _ in range(2)]
        seen = await asyncio.gather(*(one.reset(a_query(f"{site}/"), 1) for one in fresh))
        assert all("Buy" in texts(each) for each in seen)
        assert len(set(named("playwright/driver/node")) - drivers) == 1
        for one in fresh:
            await one.close()
    finally:
        await factory.close()
    assert classes == [FailureClass.ENVIRONMENT] * 2
    assert descendants(os.getpid()) <= before


_PARENT = """
import asyncio, sys
from tests.stages.environments.browser.playing import a_query
from trajmill.stages.environments.browser.environment import BrowserFactory

async def main():
    environment = await BrowserFactory()()
    await environment.reset(a_query(sys.argv[1]), 1)
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_nothing_outlives_a_parent_that_was_killed(site: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PARENT, f"{site}/"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        left = descendants(parent.pid)
        assert left
        parent.kill()
    until_gone(left)
    eventually(lambda: not [*tmp_path.iterdir()])


class Gateway(QuietHandler):
    """Cuts some connections, says of some requests that its server is away, and else has a link that fills the page."""

    asked = 0

    def reply(self) -> None:
        Gateway.asked += 1
        if Gateway.asked in (1, 4):
            self.connection.close()
            return
        page = f"<a href={self.path}n style='position: fixed; inset: 0'>Next</a>".encode()
        self.answer(page, 503 if Gateway.asked in (2, 5, 7) else 200, Content_Type="text/html")


async def test_a_site_that_stays_away_is_one_line_after_one_wait(
    browser: SharedBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser.factory, "_patience", Patience(0.2))
    tried = list[Query]()

    async def reach(environment: Environment, query: Query) -> None:
        tried.append(query)
        await environment.reset(query, 1)

    asked = [a_query("http://127.0.0.1:8999/one"), a_query("http://127.0.0.1:8999/other")]
    line = r"^http://127.0.0.1:8999 did not answer for 0.2 s \(.*Connect call failed .*\); start it, or correct its "
    with failing(FailureClass.UNREACHABLE, match=line):
        await QueryWalker(lambda _: browser.factory, 1, ORIGIN).failures(asked, reach)
    assert tried == asked[:1]


async def test_a_site_that_is_gone_for_a_while_costs_no_attempt(
    browser: SharedBrowser, caplog: pytest.LogCaptureFixture
) -> None:
    server = ExitStack()
    site = server.enter_context(serving(Gateway))

    def act(step: int) -> Action:
        if Gateway.asked == 3:
            server.close()
            threading.Timer(0.2, lambda: server.enter_context(serving(Gateway, int(site.split(":")[2])))).start()
        return Click(x=9, y=9) if step < 2 else Terminate(status="success")

    asked = [a_query(f"{site}/", ({"check": "url", "contains": "/nn"},))] * 2
    with server:
        made = await rolled_out(asked, lambda _: ToyAgent(act), browser.factory)
    assert [(one.failure, one.episode.trajectory.reward) for one in made] == [(None, 1.0)] * 2
    void, other = (one.earlier_failure for one in made)
    assert void and (void.failure_class, void.attempts, other) == (FailureClass.ENVIRONMENT, 2, None)
    assert "the server stopped answering during the episode (HTTP 503)" in void.message
    assert [line.partition(" (")[0] for line in caplog.messages if site in line] == [f"{site} does not answer"] * 2
