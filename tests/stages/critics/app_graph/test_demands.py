from tests.stages.critics.little_app import (
    PRESS,
    Trees,
    Walk,
    checkout,
    dish,
    element,
    food_query,
    is_correct,
    judged,
    labels,
    launcher,
    menu,
    page,
    placed,
    right_walk,
)
from trajmill.schemas.actions import SystemButton
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Query, Slot

ON = ("clickable", "checked")
RECEIPT = ("1 x Margherita", "Size: Large", "Note: ring twice")
BACK, HOME, ENTER = (SystemButton.model_validate({"button": name}) for name in ("Back", "Home", "Enter"))


def start(trees: Trees, first: tuple[UIElement, ...]) -> Walk:
    return Walk(launcher(), trees).tap("Food", first)


def order(walk: Walk) -> Walk:
    walk.tap("Margherita", dish()).tap("Large", dish(size="Large")).tap("Go to checkout", checkout())
    return walk.write("ring twice", checkout("ring twice")).tap("Place order", placed(*RECEIPT))


def query(instruction: str, descriptions: dict[str, str], *slots: tuple[str, str, str]) -> Query:
    """Constraints are name, value and page."""
    made = tuple(Slot(name=name, value=value, said=value, page=f"food.{where}") for name, value, where in slots)
    pages = tuple(f"food.{name}" for name in descriptions)
    return food_query(instruction=instruction, pages=pages, page_descriptions=tuple(descriptions.values()), slots=made)


def options(music: bool, alerts: bool = False) -> tuple[UIElement, ...]:
    switches = (("Music", music), ("Alerts", alerts))
    return page("options", "Options", *(("switch", name, ON if on else PRESS, "", name) for name, on in switches))


def test_a_switch_that_only_the_instruction_mentions_is_found_and_no_other_pressed() -> None:
    asked = query("I want no music, turn it off in the options.", {"options": "Music and alerts."})
    trees = Trees()
    right = judged(start(trees, options(True)).tap("Music", options(False)).end(asked), trees)
    assert labels(right) == ["GOOD"] * 3 and right.judgement is not None and right.judgement.correct
    for pressed in (["Alerts"], ["Music", "Alerts"], [], ["Music", "Music"]):
        music, alerts = True, False
        walk = start(trees, options(music, alerts))
        for name in pressed:
            music, alerts = music != (name == "Music"), alerts != (name == "Alerts")
            walk.tap(name, options(music, alerts))
        assert not is_correct(walk.end(asked), trees), pressed


def chat(pinned: bool) -> tuple[UIElement, ...]:
    buttons = [("button", text, PRESS, "", text) for text in ("Pin chat", "Mute chat")]
    return page("chat", "Chess Night", ("value", f"Pinned: {'yes' if pinned else 'no'}", (), "", "pinned"), *buttons)


def chats() -> tuple[UIElement, ...]:
    return page("chats", "Chats", *(("list_item", name, PRESS, "", f"c/{name}") for name in ("Chess Night", "Choir")))


def test_a_task_of_one_button_is_done_by_pressing_it_on_the_right_page() -> None:
    descriptions = {"chats": "All chats.", "chat": "One chat with its options."}
    asked = query("Chess Night should be pinned.", descriptions, ("chat", "Chess Night", "chats"))
    trees = Trees()
    only_looked = start(trees, chats()).tap("Chess Night", chat(False))
    assert not is_correct(only_looked.end(asked), trees)
    assert is_correct(
        start(trees, chats()).tap("Chess Night", chat(False)).tap("Pin chat", chat(True)).end(asked), trees
    )
    wrong_chat = start(trees, chats()).tap("Choir", chat(False)).tap("Pin chat", chat(True))
    assert not is_correct(wrong_chat.do(BACK, chats()).tap("Chess Night", chat(False)).end(asked), trees)


def tones(tone: str) -> tuple[UIElement, ...]:
    items = [("list_item", name, PRESS, "", f"tones/{name}") for name in ("Harp", "Bell", "Drum")]
    return page("tones", "Ringtone", ("value", f"Ringtone: {tone}", (), "", "now"), *items)


def test_a_list_that_applies_at_once_counts_by_its_last_choice() -> None:
    asked = query("Make Bell my ringtone.", {"tones": "All ringtones to choose from."}, ("tone", "Bell", "tones"))
    for picks, correct in ((("Harp", "Bell"), True), (("Bell", "Harp"), False)):
        trees = Trees()
        walk = start(trees, tones("Drum"))
        for pick in picks:
            walk.tap(pick, tones(pick))
        assert is_correct(walk.end(asked), trees) is correct


def shopping(held: str, *items: str) -> tuple[UIElement, ...]:
    field = ("text_field", "Item", ("clickable", "editable", "focused"), held, "item")
    rows = [("value", text, (), "", f"items/{index}") for index, text in enumerate(items)]
    return page("shopping", "Shopping", field, ("button", "Add", PRESS, "", "add"), *rows)


def test_what_is_typed_must_be_sent_off_once() -> None:
    asked = query('Put "milk" on the shopping list.', {"shopping": "What to buy."}, ("item", "milk", "shopping"))
    trees = Trees()
    assert not is_correct(Walk(shopping(""), trees).write("milk", shopping("milk")).end(asked), trees)
    added = Walk(shopping(""), trees).write("milk", shopping("milk")).tap("Add", shopping("", "milk")).end(asked)
    assert is_correct(added, trees) and labels(judged(added, trees)) == ["GOOD"] * 3
    twice = Walk(shopping(""), trees).write("milk", shopping("milk")).tap("Add", shopping("", "milk"))
    twice.write("milk", shopping("milk", "milk")).tap("Add", shopping("", "milk", "milk"))
    assert not is_correct(twice.end(asked), trees)


def other_form(mood: str) -> tuple[UIElement, ...]:
    choices = [("radio", text, ON if text == mood else PRESS, "Mood", f"mood/{text}") for text in ("Calm", "Loud")]
    fields = [("text_field", "Title", ("clickable", "editable"), "", "title"), ("button", "Create", PRESS, "", "go")]
    return page("form", "New playlist", *choices, *fields)


def test_a_form_that_is_left_alone_does_no_harm_a_setting_does() -> None:
    trees = Trees()
    walk = start(trees, other_form("Calm")).tap("Loud", other_form("Loud")).do(BACK, menu())
    assert is_correct(order(walk).end(), trees)
    walk = right_walk(trees).do(HOME, launcher()).tap("Food", options(True))
    assert not is_correct(walk.tap("Music", options(False)).end(), trees)


def test_something_else_that_is_done_is_seen() -> None:
    trees = Trees()
    done = page("saved", "Place saved", ("value", "Saved: Park", (), "", "what"))
    question = page("ask", "Save this?", ("button", "Save", PRESS, "", "save"))
    walk = right_walk(trees).do(HOME, launcher()).tap("Food", question).tap("Save", done)
    assert not is_correct(walk.end(), trees)


def test_a_slow_page_and_a_message_in_the_way_change_nothing() -> None:
    trees = Trees()
    loading = (element("heading", "Loading", 0, ("title",), "", "loading/title"),)
    title = element("heading", "Enjoying Food?", 0, ("title",), "", "popup/title")
    message = (title, element("button", "Not now", 1, PRESS, "", "popup/0"))
    walk = start(trees, message).tap("Not now", menu()).tap("Margherita", loading).do(ENTER, dish())
    walk.tap("Large", dish(size="Large")).tap("Go to checkout", checkout()).write("ring twice", checkout("ring twice"))
    episode = judged(walk.tap("Place order", loading).do(ENTER, placed(*RECEIPT)).end(), trees)
    assert episode.judgement is not None and episode.judgement.correct
    assert "HARMFUL" not in labels(episode) and labels(episode)[2] == "GOOD"


def test_a_choice_that_scrolls_out_of_sight_has_not_changed() -> None:
    trees = Trees()
    scrolled = dish(size="Large")[:2] + dish(size="Large")[4:]
    walk = start(trees, menu()).tap("Margherita", dish()).tap("Large", dish(size="Large"))
    walk.do(SystemButton(button="Menu"), scrolled).tap("Go to checkout", checkout())
    walk.write("ring twice", checkout("ring twice")).tap("Place order", placed(*RECEIPT))
    assert is_correct(walk.end(), trees)
