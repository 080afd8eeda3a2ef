import json

from tests.stages.environments.simulated.worlds import PAPER, SHELF, ScreenOperator, garden, world_of
from trajmill.schemas import actions as act
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.layout.profile import KEYBOARD_TOP

PHONE = world_of(garden(), SHELF)
DESKTOP = world_of(PAPER)
UP, DOWN = act.Swipe(x=360, y=1000, x2=360, y2=300), act.Swipe(x=360, y=300, x2=360, y2=1000)
BACK, HOME = act.SystemButton(button="Back"), act.SystemButton(button="Home")


def test_an_order_is_made_and_scored() -> None:
    goal = {"garden.waterings": {"append": {"name": "Basil", "amount": 2, "feed": True, "memo": "sunny side"}}}
    operator = ScreenOperator(PHONE, goal=json.dumps(goal))
    operator.press("Garden", "Basil", "+", "Add plant food", "Memo")
    operator.do(act.TypeText(text="sunny side"))
    operator.do(act.SystemButton(button="Enter"))
    assert operator.env.score_now() == 0.0
    operator.press("Water it")
    assert "Basil: 2 cups, plant food on" in operator.texts()
    assert operator.env.score_now() == 1.0
    operator.press("Done")
    assert (operator.title, operator.env.score_now()) == ("Garden", 1.0)
    operator.press("Holiday mode")
    assert operator.env.score_now() == 0.0, "something changed that the goal does not name"


def test_back_and_home() -> None:
    assert len({tuple(ScreenOperator(PHONE, seed=seed).texts()) for seed in range(8)}) == 2, "two apps in two orders"
    operator = ScreenOperator(world_of(garden(), SHELF, PAPER))
    assert (operator.texts(), operator.seen.app) == (["Home screen", "Garden", "Shelf"], "")
    operator.press("Garden")
    assert operator.find("Back") is None
    operator.press("Basil", "+", "Back")
    assert operator.title == "Garden"
    operator.press("Cactus")
    operator.do(HOME)
    assert operator.title == "Home screen"
    operator.press("Garden")
    assert operator.title == "Cactus", "an app is found as it was left"
    assert operator.value("Cups") == "2", "a variable keeps its value"
    operator.do(BACK)
    operator.do(BACK)
    assert operator.title == "Home screen"


def test_keyboard_covers_and_the_first_text_replaces() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Garden", "Basil")
    operator.do(act.TypeText(text="nothing is focused"))
    assert "keyboard" not in operator.roles()
    operator.press("Memo")
    memo, (*others, keyboard) = operator.find("Memo"), operator.seen.elements or ()
    assert memo is not None and "focused" in memo.states
    assert (keyboard.role, keyboard.bounds.top) == ("keyboard", KEYBOARD_TOP)
    assert all(element.bounds.bottom <= KEYBOARD_TOP for element in others)
    operator.do(act.TypeText(text="one"))
    operator.do(act.TypeText(text=" two"))
    assert operator.value("Memo") == "one two"
    operator.do(BACK)
    assert operator.title == "Basil" and "keyboard" not in operator.roles(), "Back first puts the keyboard away"
    operator.press("Memo")
    operator.do(act.TypeText(text="three", enter=True))
    memo = operator.find("Memo")
    assert memo is not None and memo.value == "three" and "focused" not in memo.states


def test_a_list_scrolls_to_every_row_and_back() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Shelf")

    def region() -> tuple[str, ...]:
        return next((each.states for each in operator.seen.elements or () if each.role == "list"), ())

    seen, turns = set(operator.texts()), 0
    while operator.do(UP) and "scrollable_down" in region():
        seen.update(operator.texts())
        turns += 1
    seen.update(operator.texts())
    assert {f"Book {number}" for number in range(30)} | {"All the way down"} <= seen and turns >= 2
    last = operator.seen.screen.screen_id
    assert operator.do(UP).screen.screen_id == last
    while "scrollable_up" in region():
        operator.do(DOWN)
    assert "Search" in operator.texts()


def test_search_filters() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Shelf", "Search")
    operator.do(act.TypeText(text="bOOk 27"))
    assert [text for text in operator.texts() if text.startswith("Book")] == ["Book 27"]
    operator.press("Book 27")
    assert operator.title == "Lend Book 27?"
    operator.do(BACK)
    operator.press("Search")
    operator.do(act.TypeText(text="no such"))
    assert "Nothing here yet" in operator.texts()


def test_a_dialog_hides_its_page_and_never_stays_behind() -> None:
    operator = ScreenOperator(PHONE)
    operator.press("Shelf", "Book 3")
    assert operator.title == "Lend Book 3?"
    assert "dialog" in operator.roles() and "Search" not in operator.texts()
    operator.press("No")
    assert operator.title == "Shelf"
    operator.press("Book 4", "Yes")
    assert operator.title == "Loans" and "Book 4" in operator.texts()
    operator.press("Back")
    assert operator.title == "Shelf"


def test_records_are_changed_and_removed() -> None:
    goal = '{"shelf.loans": {"update": {"days": 30}, "name": "Old loan"}}'
    operator = ScreenOperator(PHONE, goal=goal)
    operator.press("Shelf", "Book 0", "Yes")
    assert operator.env.score_now() == 0.0
    operator = ScreenOperator(PHONE, goal=goal)
    operator.press("Shelf")
    for _ in range(4):
        operator.do(UP)
    operator.press("All the way down", "Longer")
    assert operator.env.score_now() == 1.0
    operator.press("Return it")
    assert (operator.title, operator.env.score_now()) == ("Shelf", 0.0)


def test_actions_without_meaning_change_nothing() -> None:
    operator = ScreenOperator(PHONE)
    before = operator.press("Garden", "Basil").screen.screen_id
    for action in (
        act.Click(x=5, y=700),
        act.Click(x=100, y=200, button="right"),
        act.LongPress(x=100, y=200),
        act.Swipe(x=100, y=200, x2=500, y2=220),
        act.Swipe(x=100, y=200, x2=100, y2=210),
        act.Scroll(clicks=0),
        act.OpenApp(app="No such app"),
        act.OpenApp(app="Paper"),
        act.PressKeys(keys=("ctrl", "alt", "del")),
        act.PressKeys(keys=()),
        act.SystemButton(button="Menu"),
        act.Wait(),
        act.Click(x=-5, y=99999),
    ):
        assert operator.do(action).screen.screen_id == before, action
    less = operator.find("-")
    assert less is not None and "disabled" in less.states
    assert operator.press("-").screen.screen_id == before
    for name in ("Shelf", "garden", " GARDEN "):
        assert operator.do(act.OpenApp(app=name)).app == name.strip().lower()


def test_desktop_icons_take_a_double_click() -> None:
    operator = ScreenOperator(DESKTOP, Platform.DESKTOP)
    operator.press("Paper")
    assert operator.title == "Desktop"
    for leaving in ("Show desktop", "Close"):
        operator.press("Paper", count=2)
        assert operator.title == "Paper"
        operator.press(leaving)
        assert operator.title == "Desktop"


def test_menus_open_and_close() -> None:
    operator = ScreenOperator(DESKTOP, Platform.DESKTOP)
    plain = operator.press("Paper", count=2).screen.screen_id
    assert operator.find("Save as") is None
    operator.press("File")
    assert [e.text for e in operator.seen.elements or () if e.role == "menu_item"] == ["Save as", "Ruler"]
    assert operator.find("First line") is None
    assert operator.do(act.Click(x=700, y=600)).screen.screen_id == plain, "a press beside the menu only closes it"
    operator.press("File")
    assert operator.do(act.PressKeys(keys=("Escape",))).screen.screen_id == plain
    assert operator.press("File", "File").screen.screen_id == plain
    operator.press("File", "Save as")
    assert operator.title == "Save the letter"
    assert "disabled" in [state for e in operator.seen.elements or () if e.text == "OK" for state in e.states]
    operator.press("Close")
    assert operator.title == "Paper"


def test_typing_on_a_desktop_has_no_keyboard_and_items_of_a_list_are_text() -> None:
    operator = ScreenOperator(DESKTOP, Platform.DESKTOP)
    operator.press("Paper", count=2)
    operator.press("First line")
    operator.do(act.TypeText(text="Dear"))
    assert "keyboard" not in operator.roles()
    operator.do(act.PressKeys(keys=("BackSpace",)))
    assert operator.value("First line") == "Dea"
    operator.do(act.TypeText(text="New", clear=True))
    assert operator.value("First line") == "New"
    operator.press("First")
    assert operator.value("First line") == "{a} b"
