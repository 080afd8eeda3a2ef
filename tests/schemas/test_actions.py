from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    Drag,
    DragTo,
    HorizontalScroll,
    Interact,
    LongPress,
    MoveMouse,
    OpenApp,
    PressKeys,
    Scroll,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
    Wait,
    action_from_json,
    action_to_json,
    ends_episode,
    pressed_point,
)

WHOLE, TEXT, SECONDS = st.integers(-(2**40), 2**40), st.text(), st.floats(allow_nan=False, allow_infinity=False)
FOUR = {"x": WHOLE, "y": WHOLE, "x2": WHOLE, "y2": WHOLE}
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Click, x=WHOLE, y=WHOLE, button=st.sampled_from(("left", "middle", "right")), count=st.integers(1, 3)),
    st.builds(LongPress, x=WHOLE, y=WHOLE, seconds=SECONDS),
    st.builds(Swipe, **FOUR),
    st.builds(Drag, **FOUR),
    st.builds(DragTo, x=WHOLE, y=WHOLE),
    st.builds(MoveMouse, x=WHOLE, y=WHOLE),
    st.builds(Scroll, x=st.none() | WHOLE, y=st.none() | WHOLE, clicks=WHOLE),
    st.builds(HorizontalScroll, x=st.none() | WHOLE, y=st.none() | WHOLE, clicks=WHOLE),
    st.builds(TypeText, text=TEXT, clear=st.booleans(), enter=st.booleans()),
    st.builds(PressKeys, keys=st.lists(TEXT).map(tuple)),
    st.builds(SystemButton, button=st.sampled_from(("Back", "Home", "Menu", "Enter"))),
    st.builds(OpenApp, app=TEXT),
    st.builds(Wait, seconds=SECONDS),
    st.builds(Interact, text=TEXT),
    st.builds(Answer, text=TEXT),
    st.builds(Terminate, status=st.sampled_from(("success", "failure"))),
)
KINDS = get_args(get_args(Action)[0])


@given(ACTIONS)
def test_actions_survive_json(action: Action) -> None:
    text = action_to_json(action)
    assert action_from_json(text) == action
    assert "\n" not in text
    assert set(json.loads(text)) == set(type(action).model_fields), "defaults are written out"


def test_every_kind_has_a_name_of_its_own() -> None:
    names = [kind.model_fields["kind"].default for kind in KINDS]
    assert len(set(names)) == len(names) == 16


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


@given(ACTIONS)
def test_only_terminating_and_answering_end_an_episode(action: Action) -> None:
    assert ends_episode(action) == (action.kind in ("terminate", "answer"))


def test_actions_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Click(x=1, y=2).x = 3  # type: ignore[misc]
