"""The compiled app as an environment in the real browser."""

from __future__ import annotations

import io
import pickle
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest
from PIL import Image

from tests.stages.environments.browser.playing import press
from tests.stages.environments.shared_factory import SharedFactory
from tests.stages.environments.simulated.worlds import (
    SHELF,
    everything,
    garden,
    paths_of,
    query_of,
    task_of,
    task_query,
    world_of,
)
from tests.stages.environments.webapp.test_compile import HOSTILE
from tests.stages.environments.webapp.twins import Twins
from trajmill.schemas.actions import (
    Action,
    Click,
    Drag,
    LongPress,
    OpenApp,
    Scroll,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
)
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.reference_path import Position, Walker
from trajmill.stages.environments.webapp.environment import WebAppEnvironment, WebAppFactory

pytestmark = pytest.mark.browser
T = TypeVar("T")

EVIL = (
    HOSTILE.replace("Cactus", "<img src=x onerror=hacked=1>")
    .replace("Balcony", "<script>hacked=1</script>")
    .replace("Cups", "<b>Cups</b>")
    .replace("hint: Memo", 'hint: "\\"><svg onload=hacked=1>"')
    .replace("title: Watered", 'title: "<iframe srcdoc=x>"')
)


class Plays:
    """One browser for the tests of a world and a platform."""

    def __init__(self) -> None:
        self._shared: dict[tuple[tuple[str, ...], Platform], SharedFactory[WebAppEnvironment]] = {}

    def __call__(
        self, files: tuple[str, ...], platform: Platform, work: Callable[[WebAppEnvironment], Awaitable[T]]
    ) -> T:
        """What the work returns, done in an environment of its own."""
        if (files, platform) not in self._shared:
            world = world_of(*files) if files else everything()
            self._shared[files, platform] = SharedFactory(WebAppFactory(world, platform, popup=0.0))
        return self._shared[files, platform].play(work)

    def close(self) -> None:
        for shared in self._shared.values():
            shared.close()


@pytest.fixture(scope="module")
def play() -> Iterator[Plays]:
    plays = Plays()
    yield plays
    plays.close()


def element(seen: Observation, element_id: str) -> UIElement:
    return next(each for each in seen.elements or () if each.element_id == element_id)


def test_a_walk_by_pixels_reaches_the_goal_and_a_wrong_one_does_not(play: Plays) -> None:
    world = world_of(garden())
    task = task_of(world, "garden.water")
    query = task_query(task, next(paths_of(task)), {"plant": "Basil", "amount": 3, "feed": True})

    async def work(env: WebAppEnvironment) -> tuple[list[float | None], list[Observation]]:
        walker, position, looks = Walker(query.path, query.platform), Position(), [await env.reset(query, 3)]
        scores = [await env.score()]
        while True:
            action, position = walker.next_action(looks[-1], position)
            if isinstance(action, Terminate):
                break
            looks.append(await env.step(action))
        scores.append(await env.score())
        await env.step(press(element(looks[-1], "garden.watered/done")))
        await env.step(press(element(await env.reset(query, 3), "launcher/garden")))
        return [*scores, await env.score()], looks

    scores, looks = play((garden(),), Platform.PHONE, work)
    assert scores == [0.0, 1.0, 0.0]
    assert {Image.open(io.BytesIO(look.screen.encode())).size for look in looks} == {(720, 1280)}
    assert looks[-1].app == "garden"


def test_text_on_the_screen_is_never_markup(play: Plays) -> None:
    world = world_of(EVIL)
    query = query_of(Platform.PHONE, task="evil")

    async def work(env: WebAppEnvironment) -> tuple[object, list[str]]:
        twins = Twins(world, env, query, 0, popup=0.0)
        await twins.start()
        for element_id in ("launcher/garden", "garden.home/plants/<img src=x onerror=hacked=1>", "garden.plant/memo"):
            await twins.press(element_id)
        await twins.do(TypeText(text="</p><script>hacked=1</script>$plant {name}"))
        await twins.press("garden.plant/water")
        texts = [each.text for each in twins.web_seen.everything]
        count = "[typeof hacked, document.querySelectorAll('img, iframe, svg, b, #device script').length]"
        return await env.page.evaluate(count), texts

    found, texts = play((EVIL,), Platform.PHONE, work)
    assert found == ["undefined", 0]
    assert "<iframe srcdoc=x>" in texts


@pytest.mark.parametrize(
    "action",
    [
        LongPress(x=360, y=300, seconds=0.6),
        Click(x=360, y=300, button="right"),
        Drag(x=360, y=300, x2=360, y2=200),
        Swipe(x=360, y=300, x2=360, y2=290),
        Click(x=719, y=1279),
        OpenApp(app="no such app"),
        SystemButton(button="Menu"),
        TypeText(text="nobody listens"),
    ],
    ids=lambda action: action.kind,
)
def test_actions_without_meaning_change_nothing(play: Plays, action: Action) -> None:
    async def work(env: WebAppEnvironment) -> tuple[str, str]:
        await env.reset(query_of(Platform.PHONE), 0)
        before = await env.step(OpenApp(app="garden"))
        return before.screen.screen_id, (await env.step(action)).screen.screen_id

    before, after = play((garden(),), Platform.PHONE, work)
    assert before == after


def test_the_wheel_turns_without_a_place_and_takes_the_keyboard_away(play: Plays) -> None:
    async def work(env: WebAppEnvironment) -> list[str]:
        seen = await env.reset(query_of(Platform.PHONE), 0)
        for element_id in ("launcher/shelf", "shelf.home/query"):
            seen = await env.step(press(element(seen, element_id)))
        seen = await env.step(Scroll(clicks=-3))
        return [each.element_id for each in seen.elements or ()]

    shown = play((SHELF,), Platform.PHONE, work)
    assert "keyboard" not in shown and "shelf.home/query" not in shown
    assert "shelf.home/books/Book 10" in shown


async def test_environments_are_closed_twice_and_factories_travel() -> None:
    factory = WebAppFactory(world_of(SHELF), Platform.PHONE)
    travelled = pickle.loads(pickle.dumps(factory))
    env: WebAppEnvironment = await travelled()
    seen = await env.reset(query_of(Platform.PHONE), 0)
    await env.close()
    await env.close()
    await travelled.close()
    assert (seen.elements or ())[-1].text == "Shelf"


def test_a_page_that_is_gone_is_an_environment_failure(play: Plays) -> None:
    async def work(env: WebAppEnvironment) -> FailureClass:
        await env.reset(query_of(Platform.PHONE), 0)
        await env.page.context.close()
        with pytest.raises(EnvironmentFailure) as failure:
            await env.step(Click(x=10, y=10))
        return failure.value.failure_class

    assert play((garden(),), Platform.PHONE, work) is FailureClass.ENVIRONMENT


def test_the_page_reaches_nothing_but_its_own_files(play: Plays) -> None:
    async def work(env: WebAppEnvironment) -> object:
        await env.reset(query_of(Platform.PHONE), 0)
        asked = "(url) => fetch(url).then(() => 'reached', () => 'refused')"
        addresses = ("http://127.0.0.1:1/", "http://apps.invalid/secret.html", "file:///etc/hostname")
        return [await env.page.evaluate(asked, address) for address in addresses]

    assert play((garden(),), Platform.PHONE, work) == ["refused"] * 3


def test_a_page_moves_no_farther_than_the_finger(play: Plays) -> None:
    async def work(env: WebAppEnvironment) -> list[float]:
        await env.reset(query_of(Platform.PHONE), 0)
        await env.step(OpenApp(app="Mail"))
        top = "document.querySelector('#device .body').scrollTop"
        moved = []
        for _ in range(3):
            await env.page.evaluate(f"{top} = 0")
            await env.step(Swipe(x=360, y=800, x2=360, y2=600))
            moved.append(await env.page.evaluate(top))
        return moved

    assert all(60 <= pixels <= 100 for pixels in play((), Platform.PHONE, work))
