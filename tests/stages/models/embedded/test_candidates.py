from trajmill.schemas.actions import Click, Swipe, SystemButton, Terminate, TypeText
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
from trajmill.stages.models.embedded.words import Conclusion, noted_values, read_conclusion, write_conclusion

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
    assert actions[2:] == [Terminate(status="success"), SystemButton(button="Back"), SystemButton(button="Home")]


def test_giving_up_is_offered_at_the_end_of_a_list_alone() -> None:
    row = UIElement("list_item", "Pizza", Box(0, 100, 720, 200), ("clickable",))
    end, middle = (UIElement("list", "", Box(0, 100, 720, 1200), (f"scrollable_{way}",)) for way in ("up", "down"))
    for elements, offered in (([row, end], True), ([row], True), ([row, middle], False), ([FIELD], False), ([], False)):
        verbs = {each.verb: each for each in screen_candidates(elements, SIZE, phone=True)}
        assert ("fail" in verbs) is offered
    give_up = screen_candidates([row], SIZE, phone=True)[2]
    assert give_up.action(phone=True) == Terminate(status="failure")
    line = read_guidance_line("3. Give up: the list ends without it.")
    assert names(line, give_up) and not names(line, screen_candidates([row], SIZE, phone=True)[0])


def test_typed_texts_are_quotes_then_notes_then_spans_as_written() -> None:
    found = typed_candidates('add Dr. Wu at 7:30 with the note "ring twice"', ["4821"], FIELD)
    texts = [candidate.text for candidate in found]
    assert texts[:2] == ["ring twice", "4821"]
    assert {"7:30", "Wu"} <= set(texts) and "with the" not in texts
    assert found[0].action(phone=True) == TypeText(text="ring twice")


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


def test_hints_are_followed_in_order_and_ask_to_confirm_what_was_typed() -> None:
    lines = ['1. Open "Bites".', '2. Tap "+" in Quantity.', '3. Tap "+" in Quantity.', '4. Type "hi" into Note.']
    hints = [read_guidance_line(line) for line in (*lines, '5. Press "Enter".')]
    opened = Conclusion("Tapped", "Bites", "", "Home screen", ())
    plus, typed = Conclusion("Tapped", "+", "Quantity", "Dish", ()), Conclusion("Typed", "hi", "Note", "Checkout", ())
    assert remaining_lines(hints, [opened, plus]) == hints[2:]
    assert remaining_lines(hints, [opened, plus, plus, typed]) == hints[4:]
    assert remaining_lines(hints, [opened, plus, plus, typed, Conclusion("Confirmed", "", "", "List", ())]) == []
    press = CandidateAction("press", "+", "Quantity", "stepper_button")
    assert names(hints[1], press) and not names(hints[1], press._replace(field="Guests"))
    assert names(hints[3], CandidateAction("type", "hi", "Note"))
    assert not names(hints[3], CandidateAction("press", "hi"))
    assert asks_to_fill(hints[3], CandidateAction("press", "Note", "", "text_field"))
    assert names(hints[4], CandidateAction("enter")) and not names(hints[4], CandidateAction("press", "Enter"))
