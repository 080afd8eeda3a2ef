"""The simulated world and its twin in Chromium behave the same: reference paths, and walks at random."""

from __future__ import annotations

import random

import pytest

from tests.stages.environments.simulated.worlds import everything, paths_of, query_of, some_values, task_query
from tests.stages.environments.webapp.conftest import Browser
from tests.stages.environments.webapp.twins import Twins
from trajmill.schemas.actions import Action, OpenApp, PressKeys, Scroll, Swipe, SystemButton, TypeText
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.world import TaskGraph

pytestmark = pytest.mark.browser
_APPS = sorted({task.name.partition(".")[0] for task in everything().tasks()})
_STEPS = 40


@pytest.mark.parametrize("app", _APPS)
def test_every_path_of_each_task_is_the_same_in_both_worlds(browser: Browser, app: str) -> None:
    walks = [(task, path) for task in browser.world.tasks() for path in paths_of(task)]
    # The remainder of the number by eight decides the look of the device: the paths of an app are walked on several.
    for number, (task, path) in enumerate(walks):
        if task.name.startswith(f"{app}."):
            _walk(browser, task, path, number)


@pytest.mark.parametrize("platform", [Platform.PHONE, Platform.DESKTOP])
@pytest.mark.parametrize("seed", range(3))
def test_walks_at_random_are_the_same_in_both_worlds(browser: Browser, platform: Platform, seed: int) -> None:
    _wander(browser, platform, seed)


def _walk(browser: Browser, task: TaskGraph, path: tuple[str, ...], number: int) -> None:
    query = task_query(task, path, some_values(task, random.Random(number)))
    web = browser.on(task.platform)

    async def both() -> tuple[float | None, float | None]:
        twins = Twins(browser.world, web, query, number)
        await twins.start()
        if await web.score() == 1.0:  # asks for what is already so: the writer of queries drops it
            return 1.0, 1.0
        assert await twins.walk()
        return twins.sim.score_now(), await web.score()

    assert browser.loop.run_until_complete(both()) == (1.0, 1.0), query.path


def _wander(browser: Browser, platform: Platform, seed: int) -> None:
    rng = random.Random(seed)
    web = browser.on(platform)
    names = [app.name for app in browser.world.apps_on(platform)]

    async def both() -> None:
        twins = Twins(browser.world, web, query_of(platform), seed)
        await twins.start()
        for _ in range(_STEPS):
            shown = twins.sim_seen.elements or ()
            # Inputs are few, and most of what can be done to them comes after one another.
            inputs = [each for each in shown if "editable" in each.states]
            focused = any("focused" in each.states for each in inputs)
            if focused and rng.random() < 0.6:
                await twins.do(_typing(rng))
            elif rng.random() < 0.75:
                choices = [each for each in (inputs if inputs and rng.random() < 0.4 else shown) if each.clickable]
                await twins.press(rng.choice(choices).element_id)
            else:
                await twins.do(_blind(rng, platform, names))

    browser.loop.run_until_complete(both())


def _blind(rng: random.Random, platform: Platform, names: list[str]) -> Action:
    """An action that means something wherever one is."""
    keys: list[Action] = [
        PressKeys(keys=keys)
        for keys in [("enter",), ("escape",), ("backspace",), ("alt", "left"), ("shift",), ("tab",)]
    ]
    if platform is Platform.PHONE:
        own: list[Action] = [SystemButton(button=rng.choice(["Back", "Home", "Enter", "Menu"])), _swipe(rng)]
    else:
        own = [Scroll(x=640, y=400, clicks=rng.choice([-5, 5]))]
    return rng.choice([_typing(rng), rng.choice(keys), *own, OpenApp(app=rng.choice(names))])


def _typing(rng: random.Random) -> Action:
    texts = ["Ann", "Über 9 Äpfel", "a" * 210, "<b>no</b> & $name {x}", "two\nlines", "雨 ☂"]
    typed = TypeText(text=rng.choice(texts), clear=rng.random() < 0.2, enter=rng.random() < 0.2)
    choices: list[Action] = [typed, typed, typed, PressKeys(keys=("backspace",))]
    return rng.choice(choices)


def _swipe(rng: random.Random) -> Swipe:
    return rng.choice([Swipe(x=360, y=900, x2=360, y2=500), Swipe(x=360, y=500, x2=360, y2=900)])
