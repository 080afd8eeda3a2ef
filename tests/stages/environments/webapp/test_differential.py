import random
from collections.abc import Iterator

import pytest

from tests.stages.environments.shared_factory import SharedFactory
from tests.stages.environments.simulated.worlds import everything, paths_of, query_of, some_values, task_query
from tests.stages.environments.webapp.twins import POPUP, Twins
from trajmill.schemas import actions as act
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.webapp.environment import WebAppEnvironment, WebAppFactory

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("browser")]
_WORLD = everything()
_APPS = sorted({task.name.partition(".")[0] for task in _WORLD.tasks})
_WITH_GESTURES = ("notes.delete", "files.rename", "settings.ringtone", "writer.export")
_STEPS = 40
_FACTORIES = {each: WebAppFactory(_WORLD, each, POPUP) for each in (Platform.PHONE, Platform.DESKTOP)}
Webs = dict[Platform, WebAppEnvironment]


@pytest.fixture(scope="module")
def browser() -> Iterator[SharedFactory[WebAppEnvironment]]:
    shared = SharedFactory(_FACTORIES[Platform.PHONE])
    yield shared
    shared.run(_FACTORIES[Platform.DESKTOP].close())
    shared.close()


@pytest.fixture(scope="module")
def webs(browser: SharedFactory[WebAppEnvironment]) -> Webs:
    return {platform: browser.run(factory()) for platform, factory in _FACTORIES.items()}


@pytest.mark.parametrize("app", _APPS)
async def test_the_longest_path_of_every_third_task_is_the_same_in_both_worlds(webs: Webs, app: str) -> None:
    tasks = [task for task in _WORLD.tasks if task.name.startswith(f"{app}.")]
    # The remainder of the number by eight decides the look of the device: the tasks of the apps are done on several.
    chosen = [task for at, task in enumerate(tasks) if at % 3 == 0 or task.name in _WITH_GESTURES]
    for number, task in enumerate(chosen, _APPS.index(app)):
        query = task_query(task, max(paths_of(task), key=len), some_values(task, random.Random(number)))
        web = webs[task.platform]
        twins = Twins(_WORLD, web, query, number)
        await twins.start()
        if await web.score() != 1.0:  # else it asks for what is already so: the writer of queries drops it
            assert await twins.walk()
        assert (twins.sim.score_now(), await web.score()) == (1.0, 1.0), query.path


@pytest.mark.parametrize("platform", [Platform.PHONE, Platform.DESKTOP])
async def test_a_random_walk_is_the_same_in_both_worlds(webs: Webs, platform: Platform) -> None:
    rng = random.Random(0)
    names = [app.name for app in _WORLD.apps_on(platform)]
    twins = Twins(_WORLD, webs[platform], query_of(platform), 0)
    await twins.start()
    for _ in range(_STEPS):
        shown = twins.sim_seen.elements or ()
        # Inputs are few, and most of what can be done to them comes after one another.
        inputs = [each for each in shown if "editable" in each.states]
        if any("focused" in each.states for each in inputs) and rng.random() < 0.6:
            await twins.do(_typing(rng))
        elif rng.random() < 0.75:
            choices = [each for each in (inputs if inputs and rng.random() < 0.4 else shown) if each.clickable]
            await twins.press(rng.choice(choices).element_id)
        else:
            await twins.do(_blind(rng, platform, names))


def _blind(rng: random.Random, platform: Platform, names: list[str]) -> act.Action:
    """An action that means something wherever one is."""
    combinations = [("enter",), ("escape",), ("backspace",), ("alt", "left"), ("shift",), ("tab",)]
    own: list[act.Action] = [
        act.Scroll(x=640, y=400, clicks=rng.choice([-5, 5])),
        act.Click(x=360, y=300, button="right"),
    ]
    if platform is Platform.PHONE:
        places = rng.choice([(900, 500), (500, 900)])
        own = [
            act.SystemButton(button=rng.choice(["Back", "Home", "Enter", "Menu"])),
            act.Swipe(x=360, y=places[0], x2=360, y2=places[1]),
            act.LongPress(x=360, y=300, seconds=0.6),
            act.Drag(x=360, y=300, x2=360, y2=200),
        ]
    keys = act.PressKeys(keys=rng.choice(combinations))
    return rng.choice([_typing(rng), keys, *own, act.OpenApp(app=rng.choice([*names, "no such app"]))])


def _typing(rng: random.Random) -> act.Action:
    texts = ["Ann", "Über 9 Äpfel", "a" * 210, "<b>no</b> & $name {x}", "two\nlines", "雨 ☂"]
    if rng.random() < 0.25:
        return act.PressKeys(keys=("backspace",))
    return act.TypeText(text=rng.choice(texts), clear=rng.random() < 0.2, enter=rng.random() < 0.2)
