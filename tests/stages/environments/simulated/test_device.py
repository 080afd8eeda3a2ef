import json

import pytest

from tests.stages.environments.simulated.worlds import PAPER, SHELF, ScreenOperator, garden, world_of
from trajmill.schemas.actions import Click, LongPress, OpenApp, PressKeys, Scroll, Swipe, SystemButton, TypeText, Wait
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.layout.profile import KEYBOARD_TOP

PHONE = world_of(garden(), SHELF)
DESKTOP = world_of(PAPER)


def up() -> Swipe:
    return Swipe(x=360, y=1000, x2=360, y2=300)


def down() -> Swipe:
    return Swipe(x=360, y=300, x2=360, y2=1000)


def test_it_starts_on_the_launcher_with_all_apps_of_the_platform() -> None:
    operator = ScreenOperator(world_of(garden(), SHELF, PAPER))
    assert operator.title == "Home screen"
    assert operator.texts()[1:] == ["Garden", "Shelf"]
    assert operator.seen.app == ""
    assert ScreenOperator(DESKTOP, Platform.DESKTOP).texts()[1:] == ["Paper"]


def test_an_order_is_made_and_scored() -> None:
    goal = {"garden.waterings": {"append": {"name": "Basil", "amount": 2, "feed": True, "memo": "sunny side"}}}
    operator = ScreenOperator(PHONE, goal=json.dumps(goal))
    for text in ("Garden", "Basil", "+", "Add plant food", "Memo"):
        operator.press(text)
    operator.do(TypeText(text="sunny side"))
    operator.do(SystemButton(button="Enter"))
    assert operator.env.score_now() == 0.0
    operator.press("Water it")
    assert "Basil: 2 cups, plant food on" in operator.texts()
    assert operator.env.score_now() == 1.0
    operator.press("Done")
    assert operator.title == "Garden"
    assert operator.env.score_now() == 1.0
    operator.press("Holiday mode")
    assert operator.env.score_now() == 0.0, "something changed that the goal does not name"


def test_back_and_home() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Garden")
    assert operator.find("Back") is None
    operator.press("Basil")
    operator.press("+")
    operator.press("Back")
    assert operator.title == "Garden"
    operator.press("Cactus")
    operator.do(SystemButton(button="Home"))
    assert operator.title == "Home screen"
    operator.press("Garden")
    assert operator.title == "Cactus", "an app is found as it was left"
    cups = operator.find("Cups")
    assert cups is not None and cups.value == "2", "a variable keeps its value"
    operator.do(SystemButton(button="Back"))
    operator.do(SystemButton(button="Back"))
    assert operator.title == "Home screen"


def test_keyboard_covers_and_the_first_text_replaces() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Garden")
    operator.press("Basil")
    operator.do(TypeText(text="nothing is focused"))
    assert operator.find("keyboard") is None
    operator.press("Memo")
    assert operator.seen.elements is not None
    memo, keyboard = operator.find("Memo"), operator.seen.elements[-1]
    assert memo is not None and "focused" in memo.states
    assert (keyboard.role, keyboard.bounds.top) == ("keyboard", KEYBOARD_TOP)
    assert all(element.bounds.bottom <= KEYBOARD_TOP for element in operator.seen.elements[:-1])
    operator.do(TypeText(text="one"))
    operator.do(TypeText(text=" two"))
    memo = operator.find("Memo")
    assert memo is not None and memo.value == "one two"
    operator.do(SystemButton(button="Back"))
    assert operator.title == "Basil", "Back first puts the keyboard away"
    assert all(element.role != "keyboard" for element in operator.seen.elements or ())
    operator.press("Memo")
    operator.do(TypeText(text="three", enter=True))
    memo = operator.find("Memo")
    assert memo is not None and memo.value == "three" and "focused" not in memo.states


def test_a_list_scrolls_to_every_row_and_back() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Shelf")
    seen, turns = set(operator.texts()), 0
    while operator.do(up()).elements and "scrollable_down" in _region_states(operator):
        seen.update(operator.texts())
        turns += 1
    seen.update(operator.texts())
    assert {f"Book {number}" for number in range(30)} | {"All the way down"} <= seen
    assert turns >= 2
    last = operator.seen.screen.screen_id
    assert operator.do(up()).screen.screen_id == last
    while "scrollable_up" in _region_states(operator):
        operator.do(down())
    assert "Search" in operator.texts()


def _region_states(operator: ScreenOperator) -> tuple[str, ...]:
    return next((each.states for each in operator.seen.elements or () if each.role == "list"), ())


def test_search_filters() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Shelf")
    operator.press("Search")
    operator.do(TypeText(text="bOOk 27"))
    assert [text for text in operator.texts() if text.startswith("Book")] == ["Book 27"]
    operator.press("Book 27")
    assert operator.title == "Lend Book 27?"
    operator.do(SystemButton(button="Back"))
    operator.press("Search")
    operator.do(TypeText(text="no such"))
    assert "Nothing here yet" in operator.texts()


def test_a_dialog_hides_its_page_and_never_stays_behind() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Shelf")
    operator.press("Book 3")
    assert operator.title == "Lend Book 3?"
    assert "dialog" in [element.role for element in operator.seen.elements or ()]
    assert "Search" not in operator.texts()
    operator.press("No")
    assert operator.title == "Shelf"
    operator.press("Book 4")
    operator.press("Yes")
    assert operator.title == "Loans"
    assert "Book 4" in operator.texts()
    operator.press("Back")
    assert operator.title == "Shelf"


def test_records_are_changed_and_removed() -> None:
    operator = ScreenOperator(PHONE, goal='{"shelf.loans": {"update": {"days": 30}, "name": "Old loan"}}')
    operator.press("Shelf")
    operator.press("Book 0")
    operator.press("Yes")
    assert operator.env.score_now() == 0.0
    operator = ScreenOperator(PHONE, goal='{"shelf.loans": {"update": {"days": 30}, "name": "Old loan"}}')
    operator.press("Shelf")
    for _ in range(4):
        operator.do(up())
    operator.press("All the way down")
    operator.press("Longer")
    assert operator.env.score_now() == 1.0
    operator.press("Return it")
    assert operator.title == "Shelf"
    assert operator.env.score_now() == 0.0


def test_actions_without_meaning_change_nothing() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Garden")
    operator.press("Basil")
    before = operator.seen.screen.screen_id
    for action in (
        Click(x=5, y=700),
        Click(x=100, y=200, button="right"),
        LongPress(x=100, y=200),
        Swipe(x=100, y=200, x2=500, y2=220),
        Swipe(x=100, y=200, x2=100, y2=210),
        Scroll(clicks=0),
        OpenApp(app="No such app"),
        OpenApp(app="Paper"),
        PressKeys(keys=("ctrl", "alt", "del")),
        PressKeys(keys=()),
        SystemButton(button="Menu"),
        Wait(),
        Click(x=-5, y=99999),
    ):
        assert operator.do(action).screen.screen_id == before, action
    assert operator.find("-") is not None and "disabled" in operator.find("-").states  # type: ignore[union-attr]
    assert operator.press("-").screen.screen_id == before


@pytest.mark.parametrize("name", ["Garden", "garden", " GARDEN "])
def test_an_app_is_opened_by_name(name: str) -> None:
    operator = ScreenOperator(PHONE)
    assert operator.do(OpenApp(app=name)).app == "garden"


def test_desktop_icons_take_a_double_click() -> None:
    operator = ScreenOperator(DESKTOP, Platform.DESKTOP)
    operator.press("Paper")
    assert operator.title == "Desktop"
    operator.press("Paper", count=2)
    assert operator.title == "Paper"
    operator.press("Show desktop")
    assert operator.title == "Desktop"
    operator.press("Paper", count=2)
    operator.press("Close")
    assert operator.title == "Desktop"


def test_menus_open_and_close() -> None:
    operator = ScreenOperator(DESKTOP, Platform.DESKTOP)
    operator.press("Paper", count=2)
    plain = operator.seen.screen.screen_id
    assert operator.find("Save as") is None
    operator.press("File")
    assert [e.text for e in operator.seen.elements or () if e.role == "menu_item"] == ["Save as", "Ruler"]
    assert operator.find("First line") is None
    assert operator.do(Click(x=700, y=600)).screen.screen_id == plain, "a press beside the menu only closes it"
    operator.press("File")
    assert operator.do(PressKeys(keys=("Escape",))).screen.screen_id == plain
    operator.press("File")
    assert operator.press("File").screen.screen_id == plain
    operator.press("File")
    operator.press("Save as")
    assert operator.title == "Save the letter"
    assert "disabled" in [state for e in operator.seen.elements or () if e.text == "OK" for state in e.states]
    operator.press("Close")
    assert operator.title == "Paper"


def test_typing_on_a_desktop_has_no_keyboard() -> None:
    operator = ScreenOperator(DESKTOP, Platform.DESKTOP)
    operator.press("Paper", count=2)
    operator.press("First line")
    operator.do(TypeText(text="Dear"))
    assert all(element.role != "keyboard" for element in operator.seen.elements or ())
    operator.do(PressKeys(keys=("BackSpace",)))
    line = operator.find("First line")
    assert line is not None and line.value == "Dea"
    operator.do(TypeText(text="New", clear=True))
    line = operator.find("First line")
    assert line is not None and line.value == "New"


def test_effects_of_a_list_read_the_item_and_take_text_as_text() -> None:
    operator = ScreenOperator(DESKTOP, Platform.DESKTOP)
    operator.press("Paper", count=2)
    operator.press("First")
    line = operator.find("First line")
    assert line is not None and line.value == "{a} b"


def test_profiles_differ_in_order_theme_and_size() -> None:
    titles = {tuple(ScreenOperator(PHONE, seed=seed).texts()) for seed in range(8)}
    assert len(titles) == 2, "two apps stand in two orders"
    screens = {ScreenOperator(PHONE, seed=seed).seen.screen.screen_id for seed in range(16)}
    assert 4 <= len(screens) <= 8
