"""The compiled app in a real Chromium as an `Environment`; it behaves as the simulated phone and desktop do."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from importlib.resources import files
from itertools import islice
from random import Random
from typing import Any, NamedTuple, TypeVar

from playwright.async_api import BrowserContext, CDPSession, Error, Page, Route
from pydantic import StrictBool, StrictInt, StrictStr, ValidationError

from trajmill.schemas import actions
from trajmill.schemas.actions import Action, Scroll, Swipe
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import begun, make_observation
from trajmill.stages.environments.browser.input import perform, perform_by_touch
from trajmill.stages.environments.browser.launch import BrowserProcess, Viewport, close_context
from trajmill.stages.environments.browser.page import open_session, within_time
from trajmill.stages.environments.simulated.app_files.references import place_of
from trajmill.stages.environments.simulated.device import Surprises, episode_chance
from trajmill.stages.environments.simulated.layout.profile import metrics_of, profile_of
from trajmill.stages.environments.simulated.world import EpisodeGoal, Store, World, make_records, read_episode_goal
from trajmill.stages.environments.webapp.compile import INDEX, WebApp, compile_world, media_type

T = TypeVar("T")

ORIGIN = "http://apps.invalid/"
"""The origin of the pages; its files come from memory, and requests to other origins are refused."""
_SECONDS_PER_CALL = 20.0
_STILL_FRAMES = 3
_MOST_OPENINGS = 256
"""Number of openings of apps for which surprises are drawn."""
_RESET = "(start) => window.trajmill.reset(start)"
_STATE = "() => window.trajmill.state()"
READER = files(__package__).joinpath("elements.js").read_text(encoding="utf-8")
"""A JavaScript function for the page; it waits until nothing has scrolled for a number of frames, its argument."""
Value = StrictBool | StrictInt | StrictStr


class WebAppEnvironment:
    name = "webapp"

    def __init__(self, world: World, platform: Platform, user_input: WebAppInput, popup: float) -> None:
        self.platform = platform
        self._world = world
        self._input = user_input
        self.page = user_input.page
        self._popup = popup
        self._size = metrics_of(platform, 1.0).size
        self._apps = {key.casefold(): app.app for app in world.apps_on(platform) for key in (app.app, app.name)}
        self._goal: EpisodeGoal | None = None

    async def reset(self, query: Query, seed: int) -> Observation:
        return await self._pictured(await self.start(query, seed))

    async def step(self, action: Action) -> Observation:
        return await self._pictured(await self.act(action))

    async def start(self, query: Query, seed: int) -> Screenful:
        """Make a fresh device in the query's start state, on its launcher; takes no screenshot."""
        goal = read_episode_goal(query, self._world, self.platform)
        met = Surprises(Random(episode_chance(seed, query.query_id).random()), self._popup)
        device = {
            "platform": self.platform.value,
            "profile": profile_of(seed).number,
            "setup": [[*place_of(name), record] for name, record in goal.start.setup.items()],
            "without": [[*place_of(name), item] for name, item in goal.start.without.items()],
            "surprises": [
                "rating" if each.rating else "sponsored" if each.sponsored else ""
                for each in islice(met, _MOST_OPENINGS)
            ],
        }
        self._goal = goal
        await self._within_time(self.page.evaluate(_RESET, device))
        return await self._within_time(self._read(0))

    async def act(self, action: Action) -> Screenful:
        """Do an action by touch, mouse or keyboard; one without a meaning changes nothing. Takes no screenshot."""
        begun(self._goal)
        await self._within_time(self._input.do(action, self._apps))
        return await self._within_time(self._read(_STILL_FRAMES if isinstance(action, Swipe | Scroll) else 0))

    async def score(self) -> float | None:
        """Return 1.0 if the goal is reached by the rules of the simulated world, else 0.0; None without a goal."""
        goal = begun(self._goal)
        return goal.score(self._world, (await self.device_state()).stores())

    async def side_effects(self) -> tuple[str, ...] | None:
        return begun(self._goal).side_effects(self._world, (await self.device_state()).stores())

    async def close(self) -> None:
        await close_context(self.page.context)

    async def device_state(self) -> DeviceState:
        try:
            return DeviceState.model_validate(await self._within_time(self.page.evaluate(_STATE)))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]["msg"]
            raise EnvironmentFailure(f"the web app has lost its state: {first}") from error

    async def _pictured(self, shown: Screenful) -> Observation:
        taken = await self._within_time(self._input.session.send("Page.captureScreenshot", {"format": "png"}))
        return make_observation(base64.b64decode(taken["data"]), self._size, shown.visible, shown.app)

    async def _read(self, still_frames: int) -> Screenful:
        return read_screenful(await self.page.evaluate(READER, still_frames), self._input.scale)

    async def _within_time(self, work: Awaitable[T]) -> T:
        return await within_time(work, _SECONDS_PER_CALL, "the web app")


class WebAppFactory:
    def __init__(self, world: World, platform: Platform, popup: float = 0.1) -> None:
        """`popup` is the share of openings of apps with a surprise, as `FaultRates.popup`."""
        self._world = world
        self._platform = platform
        self._popup = popup
        self._app: WebApp | None = None
        self._browser = BrowserProcess()

    async def __call__(self) -> WebAppEnvironment:
        """Open a fresh context and load the app; raises EnvironmentFailure (`setup`) if that fails."""
        self._app = self._app or compile_world(self._world, self._platform)
        mobile = self._platform is Platform.PHONE
        size, scale = metrics_of(self._platform, 1.0).size, 2 if mobile else 1
        viewport = Viewport(Size(size.width // scale, size.height // scale), scale)
        context = await self._browser.new_context(viewport, mobile)
        try:
            async with asyncio.timeout(_SECONDS_PER_CALL):
                page = await _open(context, self._app)
                session = await open_session(page, viewport, mobile)
        except (Error, TimeoutError) as error:
            with suppress(Error):
                await context.close()
            raise EnvironmentFailure(f"the web app does not load: {error}", FailureClass.SETUP) from error
        user_input = WebAppInput(page, session, self._platform, viewport.scale)
        return WebAppEnvironment(self._world, self._platform, user_input, self._popup)

    async def close(self) -> None:
        await self._browser.close()


async def _open(context: BrowserContext, files: Mapping[str, str]) -> Page:
    async def answer(route: Route) -> None:
        name = route.request.url.removeprefix(ORIGIN)
        if name in files:
            await route.fulfill(body=files[name], content_type=media_type(name))
        else:
            await route.abort()

    await context.route("**/*", answer)
    page = await context.new_page()
    await page.goto(ORIGIN + INDEX)
    await page.wait_for_function("window.trajmill !== undefined")
    return page


class Screenful(NamedTuple):
    app: str
    """Id of the app in the foreground; empty on the launcher."""
    visible: tuple[UIElement, ...]
    everything: tuple[UIElement, ...]
    """All elements, also those out of view, which have empty boxes."""


def read_screenful(found: dict[str, Any], scale: int) -> Screenful:
    everything, visible = [], []
    for role, text, left, top, right, bottom, states, value, element_id, is_visible in found["rows"]:
        box = Box(round(left * scale), round(top * scale), round(right * scale), round(bottom * scale))
        everything.append(UIElement(role, text, box, tuple(states), value, element_id))
        visible += everything[-1:] if is_visible else []
    return Screenful(found["app"], tuple(visible), tuple(everything))


class AppMemory(Record):
    values: tuple[tuple[str, Value], ...]
    lists: tuple[tuple[str, tuple[dict[str, Value], ...]], ...]
    stack: tuple[str, ...]
    popup: str
    """Title of the message over it; empty without one."""
    sponsored: bool
    """Whether its lists have an advertisement."""

    def store(self) -> Store:
        return Store(dict(self.values), {name: make_records(items) for name, items in self.lists})


class DeviceState(Record):
    foreground: str
    focus: str
    menu: str
    apps: tuple[tuple[str, AppMemory], ...]

    def stores(self) -> dict[str, Store]:
        return {name: memory.store() for name, memory in self.apps}


_OPEN = "(name) => window.trajmill.open(name)"
_SHORTEST_SWIPE = 40
"""Least pixels of a finger's movement that scrolls, as in the simulated world."""
_BACK = actions.PressKeys(keys=("alt", "left"))


class WebAppInput(NamedTuple):
    page: Page
    session: CDPSession
    platform: Platform
    scale: int

    async def do(self, action: actions.Action, apps: dict[str, str]) -> None:
        """Do an action at pixels of the screenshot; `apps` are the ids of apps by name and id, in lower case."""
        phone = self.platform is Platform.PHONE
        match action:
            case actions.OpenApp(app=app):
                if app.strip().casefold() in apps:
                    await self.page.evaluate(_OPEN, apps[app.strip().casefold()])
            case actions.TypeText():
                await self._type(action)
            case actions.PressKeys(keys=keys):
                await self._press(tuple(key.casefold().removeprefix("keycode_") for key in keys))
            case actions.SystemButton(button=button) if phone:
                await self._press({"Back": ("back",), "Home": ("home",), "Enter": ("enter",)}.get(button, ()))
            case actions.Click(button="left") if phone:
                # A phone has no double press.
                await self._touch(action.model_copy(update={"count": 1}))
            case actions.Swipe(x=x, y=y, x2=x2, y2=y2) if phone and max(abs(x2 - x), abs(y2 - y)) < _SHORTEST_SWIPE:
                # The browser would interpret it as a press.
                return
            case actions.Swipe() | actions.LongPress() if phone:
                await self._touch(action)
            case actions.Scroll():
                if action.x is None or action.y is None:
                    # In the middle of the screen, because the mouse may be anywhere.
                    width, height = metrics_of(self.platform, 1.0).size
                    action = action.model_copy(update={"x": width // 2, "y": height // 2})
                await perform(self.page, action, self.scale)
            case actions.Click() | actions.Drag() | actions.LongPress() if not phone:
                await perform(self.page, action, self.scale)
            case _:
                return

    async def _touch(self, action: actions.Action) -> None:
        await perform_by_touch(self.page, self.session, action, self.scale, self.page.url)

    async def _type(self, action: actions.TypeText) -> None:
        """Type text like an input method, so that no letter triggers a keyboard shortcut."""
        keyboard = self.page.keyboard
        if action.clear:
            await keyboard.press("Control+a")
            await keyboard.press("Delete")
        if action.text:
            await keyboard.insert_text(" ".join(action.text.split("\n")))
        if action.enter:
            await keyboard.press("Enter")

    async def _press(self, keys: tuple[str, ...]) -> None:
        match keys:
            case ("back",):
                await perform(self.page, _BACK, self.scale)
            case ("del",):
                await self.page.keyboard.press("Backspace")
            case _:
                await perform(self.page, actions.PressKeys(keys=keys), self.scale)
