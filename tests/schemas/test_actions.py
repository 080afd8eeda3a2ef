import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.schemas.dialects.actions import any_action
from trajmill.schemas.actions import (
    Action,
    Click,
    Drag,
    DragTo,
    HorizontalScroll,
    LongPress,
    MoveMouse,
    Scroll,
    Swipe,
    TypeText,
    Wait,
    action_from_json,
    action_to_json,
    pressed_point,
)

WHOLE, TEXT, SECONDS = st.integers(-(2**40), 2**40), st.text(), st.floats(allow_nan=False, allow_infinity=False)
ACTIONS = any_action(WHOLE, WHOLE, TEXT, SECONDS, WHOLE, st.integers(1, 3))
KINDS = get_args(get_args(Action)[0])


@given(ACTIONS)
def test_actions_survive_json(action: Action) -> None:
    text = action_to_json(action)
    assert action_from_json(text) == action
    assert "\n" not in text
    assert set(json.loads(text)) == set(type(action).model_fields), "defaults are written out"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"kind": "shell", "command": "ls"}',
        '{"kind": "click", "x": 1}',
        '{"kind": "click", "x": 1, "y": 2, "z": 3}',
        '{"kind": "terminate", "status": "maybe"}',
        '{"kind": "system_button", "button": "Power"}',
    ],
)
def test_what_is_no_action_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        action_from_json(text)


@pytest.mark.parametrize(
    ("action", "point"),
    [
        (Click(x=1, y=2), (1, 2)),
        (LongPress(x=1, y=2), (1, 2)),
        (Swipe(x=1, y=2, x2=3, y2=4), (1, 2)),
        (Drag(x=1, y=2, x2=3, y2=4), (1, 2)),
        (DragTo(x=1, y=2), (1, 2)),
        (MoveMouse(x=0, y=0), (0, 0)),
        (Scroll(x=5, y=6, clicks=-1), (5, 6)),
        (Scroll(clicks=1), None),
        (HorizontalScroll(x=5, y=6, clicks=-1), (5, 6)),
        (TypeText(text="a"), None),
        (Wait(), None),
    ],
)
def test_the_point_that_an_action_presses(action: Action, point: tuple[int, int] | None) -> None:
    assert pressed_point(action) == point
