from __future__ import annotations

import pytest

from trajmill.schemas.actions import Action, Click, Drag, PressKeys, Scroll, Terminate, TypeText, Wait
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.agents.element_walk import WalkMove, WalkPosition, next_move

SCREEN = ScreenHandle("s", Size(100, 100), lambda: b"")


def showing(*ids: str) -> Observation:
    elements = [
        UIElement("button", name, Box(10 * n, 0, 10 * n + 10, 10), element_id=name) for n, name in enumerate(ids)
    ]
    return Observation(SCREEN, tuple(elements), "app")


def step(operation: str, target: str = "", text: str = "") -> PathStep:
    return PathStep(page="p", operation=operation, target=target, text=text)


@pytest.mark.parametrize(
    ("operation", "action"),
    [
        (step("tap", "b"), Click(x=15, y=5)),
        (step("double_tap", "b"), Click(x=15, y=5, count=2)),
        (step("right_tap", "b"), Click(x=15, y=5, button="right")),
        (step("type", "", "x"), TypeText(text="x")),
        (step("replace", "b", "x"), TypeText(text="x", clear=True)),
        (step("key", "", "ctrl+s"), PressKeys(keys=("ctrl", "s"))),
        (step("drag", "a", "b"), Drag(x=5, y=5, x2=15, y2=5)),
        (step("select", "a", "b"), Drag(x=0, y=5, x2=19, y2=5)),
        (step("finish"), Terminate(status="success")),
    ],
)
def test_each_operation_becomes_one_move(operation: PathStep, action: Action) -> None:
    assert next_move((operation,), showing("a", "b"), WalkPosition()) == WalkMove(action, WalkPosition(1))


def test_what_is_not_there_yet_is_waited_for_and_given_up_in_the_end() -> None:
    path, position = (step("drag", "a", "late"),), WalkPosition()
    move = next_move(path, showing("a"), position)
    assert isinstance(move.action, Wait) and move.position == WalkPosition(0, 1)
    assert next_move(path, showing("a", "late"), move.position).position == WalkPosition(1)
    while isinstance(move.action, Wait):
        move = next_move(path, showing("a"), move.position)
    assert move.action == Terminate(status="failure")


def test_the_wheel_is_turned_over_what_is_alike_until_the_element_shows() -> None:
    path = (step("scroll", "button:far"), step("tap", "button:far"))
    move = next_move(path, showing("button:a", "button:b", "button:c"), WalkPosition())
    assert move == WalkMove(Scroll(x=15, y=5, clicks=-5), WalkPosition(0, 1))
    found = next_move(path, showing("button:far"), move.position)
    assert found == WalkMove(Click(x=5, y=5), WalkPosition(2))
    while not isinstance(move.action, Terminate):
        move = next_move(path, showing("button:a"), move.position)
    assert move.action == Terminate(status="failure")


def test_a_path_that_does_not_finish_fails() -> None:
    assert next_move((), showing(), WalkPosition()).action == Terminate(status="failure")
