"""The thought of a walk that reads aloud names the rows that a person would read."""

from __future__ import annotations

import pytest

from trajmill.schemas.actions import Action, Click, Swipe, Terminate, TypeText
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.stages.agents.end_to_end import rows_before


def row(
    at: int, text: str, role: str = "button", states: tuple[str, ...] = ("clickable",), value: str = ""
) -> UIElement:
    return UIElement(role, text, Box(0, 100 * at, 700, 100 * at + 90), states, value)


SCREEN = (
    row(0, "Fruit", "heading", ()),
    row(1, "Banana"),
    row(2, "Sold out", states=("disabled",)),
    row(3, "+", "stepper_button", value="Quantity"),
    row(4, "Order"),
)


@pytest.mark.parametrize(
    ("action", "thought"),
    [
        (Click(x=350, y=140), "find Banana <r0> Banana"),
        (Click(x=350, y=440), "find Order <r0> Banana <r1> Quantity + <r2> Order"),
        (Click(x=350, y=20), ""),
        (Swipe(x=350, y=900, x2=350, y2=300), "<r0> Banana <r1> Quantity + <r2> Order"),
        (TypeText(text="Banana"), ""),
        (Terminate(status="success"), ""),
    ],
)
def test_rows_are_read_as_far_as_the_action_needs_them(action: Action, thought: str) -> None:
    assert rows_before(action, SCREEN) == thought


def test_before_scrolling_all_rows_are_read_for_what_lies_below() -> None:
    swipe = Swipe(x=350, y=900, x2=350, y2=300)
    assert rows_before(swipe, SCREEN[:2], "Lemon") == "find Lemon <r0> Banana"
