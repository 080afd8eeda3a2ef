"""The environments that are measured: how they are made, what is done in them, by name."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from benchmarks.environment_load import ORIGIN, Move
from benchmarks.policy_queries import benchmark_queries
from trajmill.schemas.actions import Action, Click, SystemButton, Terminate, TypeText
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.agents.base import Agent, Decision, EpisodeView
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.simulated.environment import SimulatedFactory
from trajmill.stages.environments.simulated.world import World, load_world
from trajmill.stages.environments.tasks import ImportedQueries, splits_of_seeds

_PRESSES = 5
_MINIWOB = "click-checkboxes"
_SEEDS = 8
_PHONES = 16
_QUERIES = 120
_STAND_IN = "tests.stages.environments.android.stand_in"
_CARD = "<div class=card><h3>Card {0}</h3><p>Text of card {0}</p><button>Choose {0}</button></div>"
_CARDS = (
    "<!doctype html><html lang=en><style>body { font: 14px sans-serif } .card { display: inline-block; width: 180px; "
    "margin: 4px; padding: 8px; border: 1px solid #999 }</style><h1>Cards</h1>"
    + "".join(_CARD.format(number) for number in range(60))
    + "<script>document.onclick = (event) => event.target.style.background = 'gold'</script>"
).encode()


class Subject(NamedTuple):
    """One environment and what is done in it."""

    title: str
    make: Callable[[], EnvironmentFactory]
    query: Query
    """Steps are taken in its start state."""
    move: Move
    episodes: tuple[Query, ...]
    """What whole episodes are made of; none are made without any."""


@dataclass(frozen=True, slots=True)
class PressingAgent:
    """Makes a few moves and says that it is done."""

    move: Move
    name: str = "script"
    model_version: str = "script"

    async def act(self, episode: EpisodeView) -> Decision:
        """The next move, the same one at the same seed and step."""
        step = len(episode.history)
        chance = random.Random(f"{episode.seed} {step}")
        action = self.move(episode.observation, chance) if step < _PRESSES else Terminate(status="success")
        return Decision(thought="", action=action, conclusion="")


def agent_for(subject: Subject, query: Query) -> Agent:
    """Walks the annotated path of a query, or presses something where it has none."""
    return ReferenceAgent(query) if query.path else PressingAgent(subject.move)


def press(wanted: Callable[[UIElement], bool], seen: Observation, chance: random.Random) -> Action:
    """A press on any of the wanted elements; back where there is none."""
    places = [element.bounds for element in seen.elements or () if wanted(element)]
    if not places:
        return SystemButton(button="Back")
    x, y = chance.choice(places).center
    return Click(x=x, y=y)


def press_checkbox(seen: Observation, chance: random.Random) -> Action:
    """A press that ends no episode of the MiniWoB++ page that is measured."""
    return press(lambda element: element.role == "checkbox", seen, chance)


@contextmanager
def simulated(platform: Platform, drawn: bool) -> Iterator[Subject]:
    """Simulated devices in this process; no screen has been seen before."""
    queries = _queries(load_world(), platform)

    def move(seen: Observation, chance: random.Random) -> Action:
        if drawn:
            seen.screen.encode()
        return _press_anything(seen, chance)

    words = "every screen drawn" if drawn else "no screen drawn"
    title = f"simulated {platform}, {words}"
    yield Subject(title, lambda: SimulatedFactory(load_world(), platform), queries[0], move, () if drawn else queries)


@contextmanager
def webapp(platform: Platform) -> Iterator[Subject]:
    """The simulated apps in Chromium."""
    from trajmill.stages.environments.webapp.environment import WebAppFactory

    world = load_world()
    queries = _queries(world, platform)
    title = f"web app, {platform}"
    yield Subject(title, lambda: WebAppFactory(world, platform), queries[0], _press_anything, queries)


@contextmanager
def browser() -> Iterator[Subject]:
    """A page of 60 cards on a server of this process."""
    from trajmill.stages.environments.browser.environment import BrowserFactory
    from trajmill.stages.environments.browser.task import BrowserGoal, BrowserStart, WebTask
    from trajmill.stages.environments.tasks import query_of

    def move(seen: Observation, chance: random.Random) -> Action:
        return press(lambda element: element.role == "button", seen, chance)

    goal = BrowserGoal.model_validate({"all": [{"check": "text", "selector": "h1", "equals": "Cards"}]})
    with _served_cards() as url:
        task = WebTask(instruction="Choose some cards.", start_state=BrowserStart(url=url), goal=goal)
        query = query_of(task, ORIGIN)
        yield Subject("browser, page of 60 cards", BrowserFactory, query, move, (query,))


@contextmanager
def miniwob() -> Iterator[Subject]:
    """One MiniWoB++ page."""
    from trajmill.stages.environments.miniwob.environment import MiniWobFactory

    queries = _page_queries(_MINIWOB, _SEEDS)
    yield Subject(f"MiniWoB++ {_MINIWOB}", MiniWobFactory, queries[0], press_checkbox, queries)


@contextmanager
def browsergym() -> Iterator[Subject]:
    """The same page through BrowserGym."""
    from trajmill.stages.environments.browsergym.environment import BrowserGymFactory, import_tasks

    queries = _asked(import_tasks((f"miniwob.{_MINIWOB}",), splits_of_seeds(_SEEDS, 0), 0, ORIGIN))
    yield Subject(f"BrowserGym {_MINIWOB}", BrowserGymFactory, queries[0], press_checkbox, queries)


@contextmanager
def android() -> Iterator[Subject]:
    """Simulated phones behind the adb protocol, in a process of their own."""
    from tests.stages.environments.android.stand_in.phone import package_of
    from trajmill.stages.environments.android.environment import AndroidFactory
    from trajmill.stages.environments.android.spec import AndroidSpec

    packages = {app.name: package_of(app.app) for app in load_world().apps_on(Platform.PHONE)}
    with tempfile.TemporaryDirectory() as folder:
        tasks = Path(folder) / "tasks.jsonl"
        with _stand_in(tasks) as port:
            queries = tuple(AndroidSpec().read_tasks(tasks, ORIGIN))
            make = partial(AndroidFactory, AndroidSpec(port=port, apps=packages))
            title = "Android, our side and the stand-in's simulated phones"
            yield Subject(title, make, queries[0], _press_anything, queries)


@contextmanager
def desktop(title: str, apps: tuple[str, ...], task: str, text: str) -> Iterator[Subject]:
    """Real programs under Xvfb.

    Args:
        title: of the row.
        apps: whose packaged tasks are walked.
        task: the one that steps are taken in.
        text: what every step types.
    """
    from trajmill.stages.environments.desktop.environment import LocalDesktops
    from trajmill.stages.environments.desktop.task import import_tasks, packaged_tasks

    queries = {query.task: query for query in import_tasks(packaged_tasks(), 0.0, ORIGIN)}

    def move(seen: Observation, chance: random.Random) -> Action:
        return TypeText(text=text)

    walked = tuple(query for query in queries.values() if query.apps[0] in apps)
    yield Subject(title, lambda: LocalDesktops(packaged_tasks()), queries[task], move, walked)


_SMALL, _OFFICE = ("galculator", "mousepad", "pcmanfm"), ("libreoffice_calc", "libreoffice_writer")
SUBJECTS: dict[str, Callable[[], AbstractContextManager[Subject]]] = {
    "simulated-phone": partial(simulated, Platform.PHONE, False),
    "simulated-phone-drawn": partial(simulated, Platform.PHONE, True),
    "simulated-desktop": partial(simulated, Platform.DESKTOP, False),
    "simulated-desktop-drawn": partial(simulated, Platform.DESKTOP, True),
    "webapp-phone": partial(webapp, Platform.PHONE),
    "webapp-desktop": partial(webapp, Platform.DESKTOP),
    "browser": browser,
    "miniwob": miniwob,
    "browsergym": browsergym,
    "android": android,
    "desktop-small": partial(desktop, "desktop, typing in mousepad", _SMALL, "mousepad-write-note", "word "),
    "desktop-office": partial(desktop, "desktop, typing in Calc", _OFFICE, "calc-sum", "7\n"),
}
"""By the name on the command line."""


def _press_anything(seen: Observation, chance: random.Random) -> Action:
    action = press(lambda element: element.clickable, seen, chance)
    # A simulated desktop opens some things by a double click, as a web app of it does.
    return action.model_copy(update={"count": 2}) if isinstance(action, Click) else action


def _queries(world: World, platform: Platform) -> tuple[Query, ...]:
    return tuple(query for query in benchmark_queries(world, _QUERIES, 0, 0) if query.platform is platform)


def page_query(page: str) -> Query:
    """What a MiniWoB++ page asks for at seed 0."""
    return _page_queries(page, 1)[0]


def _page_queries(page: str, seeds: int) -> tuple[Query, ...]:
    from trajmill.stages.environments.miniwob.environment import import_queries

    return _asked(import_queries((page,), splits_of_seeds(seeds, 0), 0, ORIGIN))


def _asked(asking: Coroutine[object, object, ImportedQueries]) -> tuple[Query, ...]:
    made = asyncio.run(asking)
    if made.failures:
        raise EnvironmentFailure(made.failures[0].message, made.failures[0].failure_class)
    return tuple(made.queries)


@contextmanager
def _stand_in(tasks: Path) -> Iterator[int]:
    """Port of the tests' stand-in, which has written its tasks."""
    words = ["--port", "0", "--phones", str(_PHONES), "--tasks", str(tasks)]
    with subprocess.Popen([sys.executable, "-m", _STAND_IN, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().split(":")[1])
        finally:
            process.terminate()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(_CARDS)))
        self.end_headers()
        self.wfile.write(_CARDS)

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


@contextmanager
def _served_cards() -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
