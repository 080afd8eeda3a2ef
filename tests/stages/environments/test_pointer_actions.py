"""The actions of GUI-Owl 1.5 and Qwen that start where the pointer is, as browsers and desktops do them."""

from __future__ import annotations

import base64
import json

import pytest

from trajmill.schemas.actions import Action, DragTo, HorizontalScroll, Interact
from trajmill.stages.environments.browser.input import playwright_calls
from trajmill.stages.environments.desktop.connection import as_command


@pytest.mark.parametrize(
    ("action", "methods"),
    [
        (DragTo(x=20, y=40), ["down", "move", "up"]),
        (HorizontalScroll(clicks=2), ["wheel"]),
        (HorizontalScroll(x=2, y=4, clicks=2), ["move", "wheel"]),
        (Interact(text="log in"), []),
    ],
)
def test_actions_on_a_page(action: Action, methods: list[str]) -> None:
    assert [call.method for call in playwright_calls(action, 2)] == methods


def test_a_page_scrolls_to_the_right_for_positive_clicks_and_drags_in_its_own_pixels() -> None:
    [wheel] = playwright_calls(HorizontalScroll(clicks=2))
    across, down = wheel.arguments
    assert isinstance(across, int) and across > 0 and down == 0
    assert playwright_calls(DragTo(x=20, y=40), 2)[1].arguments == (10, 20)


@pytest.mark.parametrize(
    ("action", "calls"),
    [
        (DragTo(x=20, y=40), [["dragTo", [20, 40, 0.3]]]),
        (HorizontalScroll(clicks=-900), [["hscroll", [-50]]]),
        (HorizontalScroll(x=2, y=4, clicks=2), [["moveTo", [2, 4]], ["hscroll", [2]]]),
    ],
)
def test_actions_on_a_machine(action: Action, calls: list[object]) -> None:
    command = as_command(action)
    assert command is not None and json.loads(base64.b64decode(command[-1])) == calls


def test_asking_the_user_needs_no_command() -> None:
    assert as_command(Interact(text="log in")) is None
