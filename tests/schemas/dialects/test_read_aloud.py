import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.schemas.actions import Action, Click, Scroll, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.dialects.base import ParseFailure, Reply
from trajmill.schemas.dialects.families import FAMILIES
from trajmill.schemas.dialects.read_aloud import rows_aloud
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform

FAMILY = FAMILIES["read-aloud"]
DIALECT, FRAME = FAMILY.dialect(Platform.PHONE), FAMILY.frame(Size(720, 1280))


@pytest.mark.parametrize(
    ("action", "said", "remembered"),
    [
        (Click(x=360, y=640), "<do> click <x6> <y11>", "Lemon"),
        (Click(x=0, y=1279, count=2), "<do> double_click <x0> <y22>", "Lemon"),
        (Swipe(x=360, y=900, x2=360, y2=320), "<do> swipe <x6> <y15> <x6> <y6>", "swipe"),
        (Scroll(x=60, y=58, clicks=-5), "<do> scroll_down <x1> <y1>", "scroll_down"),
        (TypeText(text="call me"), "<do> type call me", "type call me"),
        (TypeText(text="9.50", enter=True), "<do> enter 9.50", "enter 9.50"),
        (SystemButton(button="Back"), "<do> back", "back"),
        (Terminate(status="success"), "<do> done", "done"),
    ],
)
def test_rows_are_read_before_an_action_is_said(action: Action, said: str, remembered: str) -> None:
    thought = rows_aloud(["Banana", "Lemon"], "Lemon")
    text = DIALECT.render(Reply(thought, action, "not written"), FRAME)
    assert text == f"find Lemon <r0> Banana <r1> Lemon {said}"
    read = DIALECT.parse(text, FRAME)
    assert FRAME.resized == Size(168, 308) and FRAME.extent == (12.0, 22.0), "a place for each patch of 14 pixels"
    assert isinstance(read, Reply) and (read.thought, read.conclusion) == (thought, remembered)
    assert DIALECT.render(read, FRAME) == text


def test_the_prompt_is_the_task_and_what_was_pressed() -> None:
    said = DIALECT.task_text("Order a\n Bag of Lemon", None, ["Market", "Lemon"])
    assert said == "Order a Bag of Lemon\nDone: Market ; Lemon"


@pytest.mark.parametrize(
    "text",
    [
        *("", "<r0> Banana", "<do>", "<do> click", "<do> click <x1>", "<do> click <x1> <y2> <x1> <y2>"),
        *("<do> click <x1> <y2> now", "<do> swipe <x1> <y2>", "<do> type", "<do> done twice", "<do> fly"),
    ],
)
def test_a_reply_without_a_complete_action_has_no_action(text: str) -> None:
    read = DIALECT.parse(text, FRAME)
    assert isinstance(read, ParseFailure) and "\n" not in read.message


@given(labels=st.lists(st.text(max_size=20), max_size=40))
def test_no_label_is_taken_for_the_action(labels: list[str]) -> None:
    text = DIALECT.render(Reply(rows_aloud(labels).encode(errors="ignore").decode(), Click(x=60, y=116), ""), FRAME)
    read = DIALECT.parse(text, FRAME)
    assert isinstance(read, Reply) and read.action == Click(x=60, y=116)
    assert text.count("<r") <= 32 + sum(label.count("<r") for label in labels)
