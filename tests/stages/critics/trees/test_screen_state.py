from __future__ import annotations

from tests.stages.critics.little_app import checkout, dish, element, launcher, placed
from trajmill.stages.critics.trees.screen_state import page_of, read_screen


def test_a_page_is_read() -> None:
    state = read_screen("s", dish(size="Large", spicy=True, quantity=3))
    assert (state.page, state.title) == ("food.dish", "Margherita")
    stands = {control.label: control.value for control in state.controls.values()}
    assert stands == {"Size": "Large", "Extra spicy": "on", "Quantity": "3"}
    assert next(c for c in state.controls.values() if c.kind == "choice").options == ("Small", "Medium", "Large")


def test_the_value_of_a_field_is_its_content() -> None:
    (field,) = read_screen("s", checkout("ring twice")).controls.values()
    assert (field.kind, field.label, field.value) == ("field", "Note for the kitchen", "ring twice")


def test_receipts_are_values() -> None:
    assert read_screen("s", placed("1 x Diavola", "Size: Small")).values == ("1 x Diavola", "Size: Small")


def test_a_platform_that_names_nothing_is_known_by_its_titles() -> None:
    bare = (element("heading", "Settings", 0), element("radio", "Dark", 1, ("selected",), "Theme"))
    state = read_screen("s", bare)
    assert state.page == "Settings"
    assert [(c.label, c.value) for c in state.controls.values()] == [("Theme", "Dark")]


def test_the_launcher_and_an_empty_tree() -> None:
    assert page_of(launcher()) == "launcher"
    assert read_screen("s", ()).page == ""


def test_a_group_whose_choice_is_not_visible_has_no_value() -> None:
    part = (element("radio", "Small", 1, (), "Size"), element("radio", "Large", 2, (), "Size"))
    (control,) = read_screen("s", part).controls.values()
    assert control.value == ""
