import io
import pickle
from functools import partial

import pytest
from PIL import Image

from tests.failures import failing
from tests.stages.environments.browser.playing import press
from tests.stages.environments.simulated.worlds import everything, garden, query_of, world_of
from tests.stages.environments.webapp.twins import Twins
from trajmill.schemas import actions as act
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.webapp.environment import WebAppEnvironment, WebAppFactory

pytestmark = pytest.mark.browser

EVIL = (
    garden()
    .replace("name: Garden", 'name: "</script><script>hacked=1</script><!--"', 1)
    .replace("Cactus", "<img src=x onerror=hacked=1>")
    .replace("Balcony", "<script>hacked=1</script>")
    .replace("Cups", "<b>Cups</b>")
    .replace("hint: Memo", 'hint: "\\"><svg onload=hacked=1>"')
    .replace("title: Watered", 'title: "<iframe srcdoc=x>"')
)


start_browser = partial(WebAppFactory, everything(), Platform.PHONE, popup=0.0)


def element(seen: Observation, element_id: str) -> UIElement:
    return next(each for each in seen.elements or () if each.element_id == element_id)


async def test_factories_travel_environments_close_twice_and_text_on_the_screen_is_never_markup() -> None:
    factory = pickle.loads(pickle.dumps(WebAppFactory(world_of(EVIL), Platform.PHONE, popup=0.0)))
    env: WebAppEnvironment = await factory()
    try:
        twins = Twins(world_of(EVIL), env, query_of(Platform.PHONE, task="evil"), 0, popup=0.0)
        await twins.start()
        for element_id in ("launcher/garden", "garden.home/plants/<img src=x onerror=hacked=1>", "garden.plant/memo"):
            await twins.press(element_id)
        await twins.do(act.TypeText(text="</p><script>hacked=1</script>$plant {name}"))
        await twins.press("garden.plant/water")
        assert "<iframe srcdoc=x>" in [each.text for each in twins.web_seen.everything]
        count = "[typeof hacked, document.querySelectorAll('img, iframe, svg, b, #device script').length]"
        assert await env.page.evaluate(count) == ["undefined", 0]
        await env.close()
        await env.close()
    finally:
        await factory.close()


async def test_the_wheel_turns_without_a_place_and_takes_the_keyboard_away(environment: WebAppEnvironment) -> None:
    await environment.reset(query_of(Platform.PHONE), 0)
    seen = await environment.step(act.OpenApp(app="shelf"))
    assert (await environment.score(), seen.app, seen.screen.size) == (None, "shelf", (720, 1280))
    assert Image.open(io.BytesIO(seen.screen.encode())).size == (720, 1280)
    await environment.step(press(element(seen, "shelf.home/query")))
    seen = await environment.step(act.Scroll(clicks=-3))
    shown = [each.element_id for each in seen.elements or ()]
    assert "keyboard" not in shown and "shelf.home/query" not in shown
    assert "shelf.home/books/Book 10" in shown


async def test_the_page_reaches_nothing_but_its_own_files_and_its_end_is_an_environment_failure(
    environment: WebAppEnvironment,
) -> None:
    await environment.reset(query_of(Platform.PHONE), 0)
    asked = "(url) => fetch(url).then(() => 'reached', () => 'refused')"
    for address in ("http://127.0.0.1:1/", "http://apps.invalid/secret.html", "file:///etc/hostname"):
        assert await environment.page.evaluate(asked, address) == "refused"
    await environment.page.context.close()
    with failing(FailureClass.ENVIRONMENT):
        await environment.step(act.Click(x=10, y=10))


async def test_a_page_moves_no_farther_than_the_finger(environment: WebAppEnvironment) -> None:
    await environment.reset(query_of(Platform.PHONE), 0)
    await environment.step(act.OpenApp(app="Mail"))
    top = "document.querySelector('#device .body').scrollTop"
    for _ in range(3):
        await environment.page.evaluate(f"{top} = 0")
        await environment.step(act.Swipe(x=360, y=800, x2=360, y2=600))
        assert 60 <= await environment.page.evaluate(top) <= 100
