import pytest

from trajmill.schemas import actions as act
from trajmill.stages.environments.browser.input import playwright_calls


def called(action: act.Action, scale: int = 1) -> list[tuple[object, ...]]:
    """The calls of an action, each as its method, arguments and values of options."""
    calls = playwright_calls(action, scale)
    return [(f"{call.target}.{call.method}", *call.arguments, *call.options.values()) for call in calls]


@pytest.mark.parametrize(
    ("action", "calls"),
    [
        (act.Scroll(x=5, y=6, clicks=1), [("mouse.move", 5, 6), ("mouse.wheel", 0, -100)]),
        (act.PressKeys(keys=("ctrl", "Return")), [("keyboard.press", "Control+Enter")]),
        (act.PressKeys(keys=("ctrl", "no-such-key")), []),
        (act.SystemButton(button="Back"), [("page.go_back",)]),
        (act.DragTo(x=20, y=40), [("mouse.down",), ("mouse.move", 20, 40, 5), ("mouse.up",)]),
        (act.HorizontalScroll(x=2, y=4, clicks=2), [("mouse.move", 2, 4), ("mouse.wheel", 200, 0)]),
        (act.Interact(text="log in"), []),
        (act.OpenApp(app="Notes"), []),
    ],
)
def test_an_action_is_a_list_of_calls(action: act.Action, calls: list[tuple[object, ...]]) -> None:
    assert called(action) == calls


def test_positions_are_in_pixels_of_the_screenshot_and_calls_in_pixels_of_the_page() -> None:
    assert called(act.Click(x=30, y=60), scale=3) == [("mouse.click", 10, 20, "left", 1)]


def test_what_a_model_asks_for_is_bounded() -> None:
    assert called(act.Click(x=1, y=1, count=1000))[0][-1] == 3
    assert called(act.LongPress(x=1, y=1, seconds=1e9))[0][-1] == 5000
    assert called(act.Wait(seconds=-5)) == [("page.wait_for_timeout", 0)]
