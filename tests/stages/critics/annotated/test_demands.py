"""Tasks that a constraint alone does not tell: words of the instruction, lists that set at once, forms left alone."""

from __future__ import annotations

import asyncio

from tests.stages.critics.little_app import (
    ORIGIN,
    PRESS,
    Trees,
    Walk,
    checkout,
    dish,
    element,
    food_query,
    launcher,
    menu,
    page,
    placed,
    right_walk,
)
from trajmill.schemas.actions import SystemButton
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Query, Slot
from trajmill.stages.critics.app_graph.channels import annotated_judge
from trajmill.stages.critics.judge import judge_episode

ON = ("clickable", "checked")


def verdict(episode: Episode, trees: Trees) -> tuple[bool, list[bool], list[str]]:
    """The decision, the votes and the labels."""
    judged = asyncio.run(judge_episode(episode, annotated_judge(), trees, ORIGIN))
    assert judged.judgement is not None
    votes = [vote.correct for vote in judged.trajectory_verdicts]
    return judged.judgement.correct, votes, [step.label.value for step in judged.step_verdicts]


def query(instruction: str, pages: tuple[str, ...], descriptions: tuple[str, ...], *slots: Slot) -> Query:
    return food_query(instruction=instruction, pages=pages, page_descriptions=descriptions, slots=slots)


def options(music: bool, alerts: bool = False) -> tuple[UIElement, ...]:
    return page(
        "options",
        "Options",
        ("switch", "Music", ON if music else PRESS, "", "music"),
        ("switch", "Alerts", ON if alerts else PRESS, "", "alerts"),
    )


NO_MUSIC = query("I want no music, turn it off in the options.", ("food.options",), ("Music and alerts.",))


def test_a_switch_that_only_the_instruction_mentions_is_found() -> None:
    trees = Trees()
    right = Walk(launcher(), trees).tap("Food", options(True)).tap("Music", options(False))
    assert verdict(right.end(NO_MUSIC), trees) == (True, [True, True], ["GOOD", "GOOD", "GOOD"])


def test_pressing_the_wrong_switch_a_second_one_or_none_is_incorrect() -> None:
    for pressed in (["Alerts"], ["Music", "Alerts"], [], ["Music", "Music"]):
        trees = Trees()
        music, alerts = True, False
        walk = Walk(launcher(), trees).tap("Food", options(music, alerts))
        for name in pressed:
            music, alerts = music != (name == "Music"), alerts != (name == "Alerts")
            walk.tap(name, options(music, alerts))
        assert verdict(walk.end(NO_MUSIC), trees)[:2] == (False, [False, False]), pressed


def chat(pinned: bool) -> tuple[UIElement, ...]:
    values = [("value", f"Pinned: {'yes' if pinned else 'no'}", (), "", "pinned")]
    buttons = [("button", text, PRESS, "", text) for text in ("Pin chat", "Mute chat")]
    return page("chat", "Chess Night", *values, *buttons)


def chats() -> tuple[UIElement, ...]:
    return page("chats", "Chats", *(("list_item", name, PRESS, "", f"c/{name}") for name in ("Chess Night", "Choir")))


PIN = query(
    "Chess Night should be pinned.",
    ("food.chats", "food.chat"),
    ("All chats.", "One chat with its options."),
    Slot(name="chat", value="Chess Night", said="Chess Night", page="food.chats"),
)


def test_a_task_of_one_button_is_done_by_pressing_it_on_the_right_page() -> None:
    trees = Trees()
    start = Walk(launcher(), trees).tap("Food", chats()).tap("Chess Night", chat(False))
    assert verdict(start.tap("Pin chat", chat(True)).end(PIN), trees)[0]
    only_looked = Walk(launcher(), trees).tap("Food", chats()).tap("Chess Night", chat(False))
    assert not verdict(only_looked.end(PIN), trees)[0]
    wrong_chat = Walk(launcher(), trees).tap("Food", chats()).tap("Choir", chat(False)).tap("Pin chat", chat(True))
    wrong_chat.do(SystemButton(button="Back"), chats()).tap("Chess Night", chat(False))
    assert verdict(wrong_chat.end(PIN), trees)[1] == [False, False]


def tones(tone: str) -> tuple[UIElement, ...]:
    items = [("list_item", name, PRESS, "", f"tones/{name}") for name in ("Harp", "Bell", "Drum")]
    return page("tones", "Ringtone", ("value", f"Ringtone: {tone}", (), "", "now"), *items)


TONE = query(
    "Make Bell my ringtone.",
    ("food.tones",),
    ("All ringtones to choose from.",),
    Slot(name="tone", value="Bell", said="Bell", page="food.tones"),
)


def test_a_list_that_applies_at_once_counts_by_its_last_choice() -> None:
    trees = Trees()
    start = Walk(launcher(), trees).tap("Food", tones("Drum")).tap("Harp", tones("Harp"))
    assert verdict(start.tap("Bell", tones("Bell")).end(TONE), trees)[0]
    wrong = Walk(launcher(), trees).tap("Food", tones("Drum")).tap("Bell", tones("Bell")).tap("Harp", tones("Harp"))
    assert verdict(wrong.end(TONE), trees)[1] == [False, False]


def shopping(held: str, *items: str) -> tuple[UIElement, ...]:
    states = ("clickable", "editable", "focused")
    rows = [("value", text, (), "", f"items/{index}") for index, text in enumerate(items)]
    return page(
        "shopping", "Shopping", ("text_field", "Item", states, held, "item"), ("button", "Add", PRESS, "", "add"), *rows
    )


SHOPPING = query(
    'Put "milk" on the shopping list.',
    ("food.shopping",),
    ("What is to be bought.",),
    Slot(name="item", value="milk", said="milk", page="food.shopping"),
)


def test_what_is_typed_must_be_sent_off_once() -> None:
    trees = Trees()
    typed = Walk(shopping(""), trees).write("milk", shopping("milk"))
    assert not verdict(typed.end(SHOPPING), trees)[0]
    added = Walk(shopping(""), trees).write("milk", shopping("milk")).tap("Add", shopping("", "milk"))
    assert verdict(added.end(SHOPPING), trees) == (True, [True, True], ["GOOD", "GOOD", "GOOD"])
    twice = Walk(shopping(""), trees).write("milk", shopping("milk")).tap("Add", shopping("", "milk"))
    twice.write("milk", shopping("milk", "milk")).tap("Add", shopping("", "milk", "milk"))
    assert verdict(twice.end(SHOPPING), trees)[1] == [False, False]


def other_form(mood: str) -> tuple[UIElement, ...]:
    choices = [("radio", text, ON if text == mood else PRESS, "Mood", f"mood/{text}") for text in ("Calm", "Loud")]
    fields = [("text_field", "Title", ("clickable", "editable"), "", "title"), ("button", "Create", PRESS, "", "go")]
    return page("form", "New playlist", *choices, *fields)


def test_a_form_that_is_left_alone_does_no_harm_a_setting_does() -> None:
    trees = Trees()
    walk = Walk(launcher(), trees).tap("Food", other_form("Calm")).tap("Loud", other_form("Loud"))
    walk.do(SystemButton(button="Back"), menu()).tap("Margherita", dish()).tap("Large", dish(size="Large"))
    walk.tap("Go to checkout", checkout()).write("ring twice", checkout("ring twice"))
    order = walk.tap("Place order", placed("1 x Margherita", "Size: Large", "Note: ring twice"))
    assert verdict(order.end(), trees)[0]
    walk = right_walk(trees).do(SystemButton(button="Home"), launcher()).tap("Food", options(True))
    assert verdict(walk.tap("Music", options(False)).end(), trees)[1] == [False, False]


def test_something_else_that_is_done_is_seen() -> None:
    trees = Trees()
    done = page("saved", "Place saved", ("value", "Saved: Park", (), "", "what"))
    question = page("ask", "Save this?", ("button", "Save", PRESS, "", "save"))
    walk = right_walk(trees).do(SystemButton(button="Home"), launcher()).tap("Food", question).tap("Save", done)
    assert verdict(walk.end(), trees)[1] == [False, False]


def loading() -> tuple[UIElement, ...]:
    return (element("heading", "Loading", 0, ("title",), "", "loading/title"),)


def test_a_slow_page_and_a_message_in_the_way_change_nothing() -> None:
    trees = Trees()
    message = (
        element("heading", "Enjoying Food?", 0, ("title",), "", "popup/title"),
        element("button", "Not now", 1, PRESS, "", "popup/0"),
    )
    walk = Walk(launcher(), trees).tap("Food", message).tap("Not now", menu()).tap("Margherita", loading())
    walk.do(SystemButton(button="Enter"), dish()).tap("Large", dish(size="Large")).tap("Go to checkout", checkout())
    walk.write("ring twice", checkout("ring twice")).tap("Place order", loading())
    walk.do(SystemButton(button="Enter"), placed("1 x Margherita", "Size: Large", "Note: ring twice"))
    correct, _, labels = verdict(walk.end(), trees)
    assert correct
    assert "HARMFUL" not in labels and labels[2] == "GOOD"


def test_a_choice_that_scrolls_out_of_sight_has_not_changed() -> None:
    trees = Trees()
    scrolled = dish(size="Large")[:2] + dish(size="Large")[4:]
    walk = Walk(launcher(), trees).tap("Food", menu()).tap("Margherita", dish()).tap("Large", dish(size="Large"))
    walk.do(SystemButton(button="Menu"), scrolled).tap("Go to checkout", checkout())
    walk.write("ring twice", checkout("ring twice"))
    order = walk.tap("Place order", placed("1 x Margherita", "Size: Large", "Note: ring twice"))
    assert verdict(order.end(), trees)[0]
