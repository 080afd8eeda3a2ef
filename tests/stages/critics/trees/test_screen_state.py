from __future__ import annotations

from tests.stages.critics.little_app import dish, element, launcher
from trajmill.stages.critics.trees.screen_state import page_of, read_screen


def test_a_page_is_read() -> None:
    state = read_screen("s", dish(size="Large", spicy=True, quantity=3))
    assert (state.page, state.title) == ("food.dish", "Margherita")
    stands = {control.label: control.value for control in state.controls.values()}
    assert stands == {"Size": "Large", "Extra spicy": "on", "Quantity": "3"}
    assert next(c for c in state.controls.values() if c.kind == "choice").options == ("Small", "Medium", "Large")


def test_a_platform_that_names_nothing_is_known_by_its_titles() -> None:
    bare = (element("heading", "Settings", 0), element("radio", "Dark", 1, ("selected",), "Theme"))
    state = read_screen("s", bare)
    assert state.page == "Settings"
    assert [(c.label, c.value) for c in state.controls.values()] == [("Theme", "Dark")]


def test_the_launcher_and_an_empty_tree() -> None:
    assert page_of(launcher()) == "launcher"
    assert read_screen("s", ()).page == ""
