import io
from functools import partial

import pytest
from PIL import Image

from tests.failures import failing
from tests.stages.environments.browser.playing import PATIENT, a_query, element, press, texts
from trajmill.schemas import actions as act
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.browser.environment import BrowserEnvironment, BrowserFactory

pytestmark = pytest.mark.browser
start_browser = partial(BrowserFactory, timeouts=PATIENT)


def blue(seen: Observation) -> int:
    pixel = Image.open(io.BytesIO(seen.screen.encode())).convert("RGB").getpixel((300, 790))
    assert isinstance(pixel, tuple)
    return pixel[2]


async def test_mouse_keyboard_select_and_storage_reach_the_goal(site: str, environment: BrowserEnvironment) -> None:
    goal = (
        {"check": "text", "selector": "#total", "equals": "2"},
        {"check": "text", "selector": "#chosen", "equals": "Large"},
        {"check": "value", "selector": "#name", "equals": "Zoë €"},
        {"check": "value", "selector": "#agree", "equals": "true"},
        {"check": "storage", "key": "name", "contains": "€"},
        {"check": "url", "equals": f"{site}/"},
    )
    seen = await environment.reset(a_query(f"{site}/", goal), 1)
    scores = [await environment.score()]
    await environment.step(press(element(seen, "button", "Buy")))
    await environment.step(press(element(seen, "button", "Buy")))
    opened = await environment.step(press(element(seen, "combo_box")))
    seen = await environment.step(press(element(opened, "list_item", "Large")))
    await environment.step(press(element(seen, "text_field")))
    await environment.step(act.TypeText(text="Zoë €"))
    scores.append(await environment.score())
    await environment.step(press(element(seen, "checkbox")))
    scores.append(await environment.score())
    assert (await environment.step(act.Answer(text="done"))).app == "127.0.0.1"
    assert scores == [0.0, 0.0, 1.0]
    opened = await environment.step(press(element(seen, "link", "New tab")))
    assert "Buy" in texts(await environment.step(press(element(opened, "button", "Close me")))), "as before the tab"


async def test_boxes_in_iframes_are_right_and_covered_ones_left_out(site: str, environment: BrowserEnvironment) -> None:
    seen = await environment.reset(a_query(f"{site}/frames"), 1)
    assert "Pressed" in texts(await environment.step(press(element(seen, "button", "Inside"))))
    found = texts(await environment.reset(a_query(f"{site}/modal"), 1))
    assert "Over" in found and "Under" not in found


async def test_a_box_in_a_dialog_can_be_set(site: str, environment: BrowserEnvironment) -> None:
    opened = await environment.step(press(element(await environment.reset(a_query(f"{site}/states"), 1), "combo_box")))
    chosen = element(await environment.step(press(element(opened, "list_item", "Blue"))), "combo_box")
    assert chosen.value == "Blue" and "disabled" in element(opened, "list_item", "Gone").states
    assert "checked" in element(opened, "switch", "Dark mode").states


async def test_controls_that_others_draw_are_in_the_tree(site: str, environment: BrowserEnvironment) -> None:
    seen = await environment.reset(a_query(f"{site}/drawn-by-others"), 1)
    checked = await environment.step(press(element(seen, "checkbox")))
    followed = await environment.step(press(element(checked, "text", "Card")))
    states = [element(each, "checkbox").states for each in (seen, checked)]
    assert states == [("clickable",), ("clickable", "checked", "focused")]
    assert element(seen, "checkbox").text == "Newsletter"
    assert element(seen, "text", "Card").clickable and not element(seen, "text", "Bare").clickable
    assert not {"Gone", "Trap"} & set(texts(seen))
    assert "Arrived" in texts(followed)


async def test_alerts_are_sheets_one_after_another_and_stop_nothing(site: str, environment: BrowserEnvironment) -> None:
    asked = await environment.reset(a_query(f"{site}/alert-at-once"), 1)
    assert "Welcome" in texts(asked)
    assert "Inside" in texts(await environment.step(press(element(asked, "button", "OK"))))
    seen = await environment.reset(a_query(f"{site}/dialogs"), 1)
    first = await environment.step(press(element(seen, "button", "Alert")))
    beside = await environment.step(act.Click(x=1, y=1))
    assert first.screen.screen_id == beside.screen.screen_id != seen.screen.screen_id
    assert Image.open(io.BytesIO(first.screen.encode())).size == first.screen.size
    second = await environment.step(press(element(first, "button", "OK")))
    done = await environment.step(act.PressKeys(keys=("enter",)))
    assert texts(first) == ["127.0.0.1", "", "Careful <b>now</b>", "OK"]
    assert "And again" in texts(second) and "alerted" in texts(done)


async def test_a_question_gets_its_answer_or_the_check_dismisses_it(site: str, environment: BrowserEnvironment) -> None:
    query = a_query(f"{site}/dialogs", ({"check": "text", "selector": "#said", "equals": "Ann"},))
    seen = await environment.reset(query, 1)
    for button, said in (("OK", "deleted"), ("Cancel", "kept")):
        asked = await environment.step(press(element(seen, "button", "Confirm")))
        assert said in texts(await environment.step(press(element(asked, "button", button))))
    asked = await environment.step(press(element(seen, "button", "Prompt")))
    assert element(asked, "text_field").value == "Nobody"
    written = await environment.step(act.TypeText(text="Ann", clear=True))
    await environment.step(press(element(written, "button", "OK")))
    assert await environment.score() == 1.0
    await environment.step(press(element(seen, "button", "Prompt")))
    assert await environment.score() == 0.0


async def test_file_choosers_offer_files_and_downloads_are_checked(site: str, environment: BrowserEnvironment) -> None:
    goal = ({"check": "download", "name": "table.csv", "equals": "1,2"},)
    query = a_query(f"{site}/files", goal, files={"a.txt": "alpha", "b.txt": "beta"})
    seen = await environment.reset(query, 1)
    asked = await environment.step(press(element(seen, "button")))
    chosen = await environment.step(press(element(asked, "button", "b.txt")))
    assert "b.txt: beta" in texts(chosen)
    assert await environment.score() == 0.0
    await environment.step(press(element(chosen, "link", "Download")))
    assert await environment.score() == 1.0
    seen = await environment.reset(a_query(f"{site}/files"), 1)
    assert texts(seen) == texts(await environment.step(press(element(seen, "button")))), "as if cancelled"


async def test_equal_seeds_give_equal_screens_of_a_restless_page(site: str, environment: BrowserEnvironment) -> None:
    walks = []
    for seed in (3, 3, 4):
        first = await environment.reset(a_query(f"{site}/moving"), seed)
        later = await environment.step(act.Wait(seconds=1.0))
        walks.append([first.screen.screen_id, later.screen.screen_id, *texts(first)])
    one, same, other = walks
    assert one == same != other
    assert one[0] != one[1], "time passes with each action"


async def test_the_wheel_scrolls_and_the_tree_says_where_more_is(site: str, environment: BrowserEnvironment) -> None:
    seen = [await environment.reset(a_query(f"{site}/long"), 1)]
    seen.append(await environment.step(act.Scroll(x=100, y=100, clicks=-5)))
    seen.append(await environment.step(act.Scroll(x=100, y=100, clicks=-100)))
    assert "Bottom" in texts(seen[-1])
    down, up = "scrollable_down", "scrollable_up"
    assert [element(one, "list").states for one in seen] == [(down,), (down, up), (up,)]


async def test_a_phone_has_touch_and_its_screenshots_have_its_pixels(site: str) -> None:
    factory = BrowserFactory(Platform.PHONE, PATIENT)
    environment = await factory()
    try:
        assert environment.platform is Platform.PHONE
        first = await environment.reset(a_query(f"{site}/touch", mobile=True, viewport=[300, 400]), 1)
        assert "300 2 1" in texts(first)
        assert Image.open(io.BytesIO(first.screen.encode())).size == first.screen.size == (600, 800)
        assert "touched" in texts(await environment.step(press(element(first, "button", "Tap"))))
        assert "touched" not in texts(await environment.step(act.SystemButton(button="Home")))
        first = await environment.reset(a_query(f"{site}/long", mobile=True, viewport=[300, 400]), 1)
        dragged = await environment.step(act.Swipe(x=300, y=700, x2=300, y2=100))
        assert "scrollable_up" in element(dragged, "list").states
        assert blue(dragged) > blue(first), "the blue end of the page comes up"
        held = await environment.step(act.LongPress(x=300, y=300, seconds=0.1))
        assert texts(held) == texts(dragged)
    finally:
        await environment.close()
        await factory.close()


async def test_only_the_origin_is_reached_also_by_a_redirect(site: str, environment: BrowserEnvironment) -> None:
    seen = await environment.reset(a_query(f"{site}/outside"), 1)
    away = await environment.step(press(element(seen, "link", "Elsewhere")))
    refused = environment.refused
    with failing(FailureClass.SETUP):
        await environment.reset(a_query(f"{site}/away"), 1)
    assert environment.refused == ("localhost:8999",), "what was refused before is forgotten"
    assert "refused" in texts(seen)
    assert set(refused) == {"localhost:8999"}
    assert any("allow-list" in text for text in texts(away))
