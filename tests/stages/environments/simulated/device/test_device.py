import json

import pytest

from tests.stages.environments.simulated.worlds import PAPER, SHELF, Hand, garden, world_of
from trajmill.schemas.actions import Click, LongPress, OpenApp, PressKeys, Scroll, Swipe, SystemButton, TypeText, Wait
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.layout.metrics import KEYBOARD_TOP

PHONE = world_of(garden(), SHELF)
DESKTOP = world_of(PAPER)


def up() -> Swipe:
    return Swipe(x=360, y=1000, x2=360, y2=300)


def down() -> Swipe:
    return Swipe(x=360, y=300, x2=360, y2=1000)


def test_it_starts_on_the_launcher_with_all_apps_of_the_platform() -> None:
    hand = Hand(world_of(garden(), SHELF, PAPER))
    assert hand.title == "Home screen"
    assert hand.texts()[1:] == ["Garden", "Shelf"]
    assert hand.seen.app == ""
    assert Hand(DESKTOP, Platform.DESKTOP).texts()[1:] == ["Paper"]


def test_an_order_is_made_and_scored() -> None:
    goal = {"garden.waterings": {"append": {"name": "Basil", "amount": 2, "feed": True, "memo": "sunny side"}}}
    hand = Hand(PHONE, goal=json.dumps(goal))
    for text in ("Garden", "Basil", "+", "Add plant food", "Memo"):
        hand.press(text)
    hand.do(TypeText(text="sunny side"))
    hand.do(SystemButton(button="Enter"))
    assert hand.env.score_now() == 0.0
    hand.press("Water it")
    assert "Basil: 2 cups, plant food on" in hand.texts()
    assert hand.env.score_now() == 1.0
    hand.press("Done")
    assert hand.title == "Garden"
    assert hand.env.score_now() == 1.0
    hand.press("Holiday mode")
    assert hand.env.score_now() == 0.0, "something changed that the goal does not name"


def test_back_and_home() -> None:
    hand = Hand(PHONE)
    hand.press("Garden")
    assert hand.find("Back") is None
    hand.press("Basil")
    hand.press("+")
    hand.press("Back")
    assert hand.title == "Garden"
    hand.press("Cactus")
    hand.do(SystemButton(button="Home"))
    assert hand.title == "Home screen"
    hand.press("Garden")
    assert hand.title == "Cactus", "an app is found as it was left"
    cups = hand.find("Cups")
    assert cups is not None and cups.value == "2", "a variable keeps its value"
    hand.do(SystemButton(button="Back"))
    hand.do(SystemButton(button="Back"))
    assert hand.title == "Home screen"


def test_keyboard_covers_and_the_first_text_replaces() -> None:
    hand = Hand(PHONE)
    hand.press("Garden")
    hand.press("Basil")
    hand.do(TypeText(text="nothing is focused"))
    assert hand.find("keyboard") is None
    hand.press("Memo")
    assert hand.seen.elements is not None
    memo, keyboard = hand.find("Memo"), hand.seen.elements[-1]
    assert memo is not None and "focused" in memo.states
    assert (keyboard.role, keyboard.bounds.top) == ("keyboard", KEYBOARD_TOP)
    assert all(element.bounds.bottom <= KEYBOARD_TOP for element in hand.seen.elements[:-1])
    hand.do(TypeText(text="one"))
    hand.do(TypeText(text=" two"))
    memo = hand.find("Memo")
    assert memo is not None and memo.value == "one two"
    hand.do(SystemButton(button="Back"))
    assert hand.title == "Basil", "Back first puts the keyboard away"
    assert all(element.role != "keyboard" for element in hand.seen.elements or ())
    hand.press("Memo")
    hand.do(TypeText(text="three", enter=True))
    memo = hand.find("Memo")
    assert memo is not None and memo.value == "three" and "focused" not in memo.states


def test_a_list_scrolls_to_every_row_and_back() -> None:
    hand = Hand(PHONE)
    hand.press("Shelf")
    seen, turns = set(hand.texts()), 0
    while hand.do(up()).elements and "scrollable_down" in _region_states(hand):
        seen.update(hand.texts())
        turns += 1
    seen.update(hand.texts())
    assert {f"Book {number}" for number in range(30)} | {"All the way down"} <= seen
    assert turns >= 2
    last = hand.seen.screen.screen_id
    assert hand.do(up()).screen.screen_id == last
    while "scrollable_up" in _region_states(hand):
        hand.do(down())
    assert "Search" in hand.texts()


def _region_states(hand: Hand) -> tuple[str, ...]:
    return next((each.states for each in hand.seen.elements or () if each.role == "list"), ())


def test_search_filters() -> None:
    hand = Hand(PHONE)
    hand.press("Shelf")
    hand.press("Search")
    hand.do(TypeText(text="bOOk 27"))
    assert [text for text in hand.texts() if text.startswith("Book")] == ["Book 27"]
    hand.press("Book 27")
    assert hand.title == "Lend Book 27?"
    hand.do(SystemButton(button="Back"))
    hand.press("Search")
    hand.do(TypeText(text="no such"))
    assert "Nothing here yet" in hand.texts()


def test_a_dialog_hides_its_page_and_never_stays_behind() -> None:
    hand = Hand(PHONE)
    hand.press("Shelf")
    hand.press("Book 3")
    assert hand.title == "Lend Book 3?"
    assert "dialog" in [element.role for element in hand.seen.elements or ()]
    assert "Search" not in hand.texts()
    hand.press("No")
    assert hand.title == "Shelf"
    hand.press("Book 4")
    hand.press("Yes")
    assert hand.title == "Loans"
    assert "Book 4" in hand.texts()
    hand.press("Back")
    assert hand.title == "Shelf"


def test_records_are_changed_and_removed() -> None:
    hand = Hand(PHONE, goal='{"shelf.loans": {"update": {"days": 30}, "name": "Old loan"}}')
    hand.press("Shelf")
    hand.press("Book 0")
    hand.press("Yes")
    assert hand.env.score_now() == 0.0
    hand = Hand(PHONE, goal='{"shelf.loans": {"update": {"days": 30}, "name": "Old loan"}}')
    hand.press("Shelf")
    for _ in range(4):
        hand.do(up())
    hand.press("All the way down")
    hand.press("Longer")
    assert hand.env.score_now() == 1.0
    hand.press("Return it")
    assert hand.title == "Shelf"
    assert hand.env.score_now() == 0.0


def test_actions_without_meaning_change_nothing() -> None:
    hand = Hand(PHONE)
    hand.press("Garden")
    hand.press("Basil")
    before = hand.seen.screen.screen_id
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
        assert hand.do(action).screen.screen_id == before, action
    assert hand.find("-") is not None and "disabled" in hand.find("-").states  # type: ignore[union-attr]
    assert hand.press("-").screen.screen_id == before


@pytest.mark.parametrize("name", ["Garden", "garden", " GARDEN "])
def test_an_app_is_opened_by_name(name: str) -> None:
    hand = Hand(PHONE)
    assert hand.do(OpenApp(app=name)).app == "garden"


def test_desktop_icons_take_a_double_click() -> None:
    hand = Hand(DESKTOP, Platform.DESKTOP)
    hand.press("Paper")
    assert hand.title == "Desktop"
    hand.press("Paper", count=2)
    assert hand.title == "Paper"
    hand.press("Show desktop")
    assert hand.title == "Desktop"
    hand.press("Paper", count=2)
    hand.press("Close")
    assert hand.title == "Desktop"


def test_menus_open_and_close() -> None:
    hand = Hand(DESKTOP, Platform.DESKTOP)
    hand.press("Paper", count=2)
    plain = hand.seen.screen.screen_id
    assert hand.find("Save as") is None
    hand.press("File")
    assert [e.text for e in hand.seen.elements or () if e.role == "menu_item"] == ["Save as", "Ruler"]
    assert hand.find("First line") is None
    assert hand.do(Click(x=700, y=600)).screen.screen_id == plain, "a press beside the menu only closes it"
    hand.press("File")
    assert hand.do(PressKeys(keys=("Escape",))).screen.screen_id == plain
    hand.press("File")
    assert hand.press("File").screen.screen_id == plain
    hand.press("File")
    hand.press("Save as")
    assert hand.title == "Save the letter"
    assert "disabled" in [state for e in hand.seen.elements or () if e.text == "OK" for state in e.states]
    hand.press("Close")
    assert hand.title == "Paper"


def test_typing_on_a_desktop_has_no_keyboard() -> None:
    hand = Hand(DESKTOP, Platform.DESKTOP)
    hand.press("Paper", count=2)
    hand.press("First line")
    hand.do(TypeText(text="Dear"))
    assert all(element.role != "keyboard" for element in hand.seen.elements or ())
    hand.do(PressKeys(keys=("BackSpace",)))
    line = hand.find("First line")
    assert line is not None and line.value == "Dea"
    hand.do(TypeText(text="New", clear=True))
    line = hand.find("First line")
    assert line is not None and line.value == "New"


def test_effects_of_a_list_read_the_item_and_take_text_as_text() -> None:
    hand = Hand(DESKTOP, Platform.DESKTOP)
    hand.press("Paper", count=2)
    hand.press("First")
    line = hand.find("First line")
    assert line is not None and line.value == "{a} b"


def test_profiles_differ_in_order_theme_and_size() -> None:
    titles = {tuple(Hand(PHONE, seed=seed).texts()) for seed in range(8)}
    assert len(titles) == 2, "two apps stand in two orders"
    screens = {Hand(PHONE, seed=seed).seen.screen.screen_id for seed in range(16)}
    assert 4 <= len(screens) <= 8
