from __future__ import annotations

from trajmill.schemas.actions import Click, PressKeys, Scroll, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.models.embedded.candidates import (
    CandidateAction,
    asks_to_fill,
    names,
    read_guidance_line,
    remaining_lines,
    screen_candidates,
    typed_candidates,
)
from trajmill.stages.models.embedded.words import (
    Conclusion,
    Lexicon,
    normal_form,
    noted_values,
    read_conclusion,
    write_conclusion,
)

SIZE = Size(720, 1280)
FIELD = UIElement("text_field", "Note", Box(0, 500, 700, 560), ("clickable", "editable", "focused"))


def test_a_phone_offers_presses_scrolls_and_system_buttons() -> None:
    elements = [
        UIElement("heading", "Menu", Box(0, 0, 720, 90), ("title",)),
        UIElement("list_item", "Pizza", Box(0, 100, 720, 200), ("clickable",)),
        UIElement("button", "Order", Box(0, 200, 720, 300), ("clickable", "disabled")),
        UIElement("list", "", Box(0, 100, 720, 1200), ("scrollable_down",)),
    ]
    actions = [candidate.action(phone=True) for candidate in screen_candidates(elements, SIZE, phone=True)]
    assert actions[0] == Click(x=360, y=150)
    assert isinstance(actions[1], Swipe) and actions[1].y > actions[1].y2
    assert actions[2:] == [
        Terminate(status="success"),
        SystemButton(button="Back"),
        SystemButton(button="Home"),
    ]


def test_a_desktop_scrolls_by_wheel_and_confirms_by_key() -> None:
    elements = [FIELD, UIElement("list", "", Box(0, 0, 700, 700), ("scrollable_up",))]
    actions = [candidate.action(phone=False) for candidate in screen_candidates(elements, Size(1280, 720), phone=False)]
    assert Scroll(x=350, y=350, clicks=3) in actions and PressKeys(keys=("enter",)) in actions
    assert not any(isinstance(action, SystemButton) for action in actions)


def test_typed_texts_are_quotes_then_notes_then_spans_as_written() -> None:
    found = typed_candidates('add Dr. Wu at 7:30 with the note "ring twice"', ["4821"], FIELD)
    texts = [candidate.text for candidate in found]
    assert texts[:2] == ["ring twice", "4821"]
    assert {"7:30", "Wu"} <= set(texts) and "with the" not in texts
    assert found[0].action(phone=True) == TypeText(text="ring twice")


def test_the_number_of_a_stepper_is_beside_its_buttons() -> None:
    elements = [
        UIElement("text", "Quantity", Box(0, 100, 500, 160), (), "2"),
        UIElement("stepper_button", "+", Box(600, 100, 700, 160), ("clickable",), "Quantity"),
        UIElement("stepper_button", "+", Box(600, 200, 700, 260), ("clickable",), "Guests"),
    ]
    first, second, *_ = screen_candidates(elements, SIZE, phone=True)
    assert (first.field, first.beside, second.beside) == ("Quantity", "2", "")


def test_conclusions_are_read_back() -> None:
    conclusions = [
        Conclusion("Tapped", "Large", "Size", "Margherita", ()),
        Conclusion("Typed", "ring 'twice'", "Note", "Checkout", ("4821", "12 Elm St.")),
        Conclusion("Finished", "", "", "Order placed", ()),
    ]
    assert [
        read_conclusion(write_conclusion(conclusion, into=conclusion.verb == "Typed")) for conclusion in conclusions
    ] == conclusions
    assert read_conclusion(write_conclusion(Conclusion("Scrolled", "", "", "Menu", ()), how="down")).verb == "Scrolled"
    assert read_conclusion("Something else happened").verb == ""
    assert noted_values([*conclusions, conclusions[1]]) == ["4821", "12 Elm St."]


def test_hints_are_followed_in_order() -> None:
    lines = ['1. Open "Bites".', '2. Tap "+" in Quantity.', '3. Tap "+" in Quantity.', '4. Type "hi" into Note.']
    hints = [read_guidance_line(line) for line in lines]
    done = [Conclusion("Tapped", "Bites", "", "Home screen", ()), Conclusion("Tapped", "+", "Quantity", "Dish", ())]
    assert remaining_lines(hints, done) == hints[2:]
    assert remaining_lines(hints, [*done, done[1], Conclusion("Typed", "hi", "Note", "Checkout", ())]) == []
    plus = CandidateAction("press", "+", "Quantity", "stepper_button")
    assert names(hints[1], plus) and not names(hints[1], plus._replace(field="Guests"))
    assert names(hints[3], CandidateAction("type", "hi", "Note")) and not names(
        hints[3], CandidateAction("press", "hi")
    )
    assert asks_to_fill(hints[3], CandidateAction("press", "Note", "", "text_field"))


def test_a_hint_asks_to_confirm_what_was_typed() -> None:
    hints = [read_guidance_line(line) for line in ('1. Type "hi" into Note.', '2. Press "Enter".', '3. Tap "All".')]
    typed = Conclusion("Typed", "hi", "Note", "List", ())
    assert remaining_lines(hints, [typed]) == hints[1:]
    assert remaining_lines(hints, [typed, Conclusion("Confirmed", "", "", "List", ())]) == hints[2:]
    assert names(hints[1], CandidateAction("enter")) and not names(hints[2], CandidateAction("enter"))
    assert not names(hints[1], CandidateAction("press", "Enter"))


def test_words_meet_across_their_forms() -> None:
    same = [("orders", "ordered"), ("Two", "2"), ("noodles", "noodle"), ("e-mail", "email"), ("getting", "get")]
    assert all(normal_form(one) == normal_form(other) for one, other in same)
    assert normal_form("Class") == "class" and normal_form("7:30") == "7:30"
    lexicon = Lexicon()
    assert lexicon.ids_of("Order two orders").tolist() == [1, 2, 1]
