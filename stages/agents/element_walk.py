"""Walks an annotated path of element ids in any environment with an accessibility tree; waits for late elements."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.actions import Action, Click, Drag, PressKeys, Scroll, Terminate, TypeText, Wait
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.environments.element_names import targets

_MOST_WAITS = 20
_WAIT_SECONDS = 0.25
_WHEEL_CLICKS = 5


class WalkPosition(NamedTuple):
    """The position of a walk on its path."""

    step: int = 0
    """Index of the next operation."""
    waits: int = 0
    """Number of waits and scrolls for its target so far."""


class WalkMove(NamedTuple):
    """One action of a walk, and the position after it."""

    action: Action
    position: WalkPosition


def next_move(path: tuple[PathStep, ...], observation: Observation, position: WalkPosition) -> WalkMove:
    """The next action of a walk; the last is `Terminate`, with status failure if a target never appears.

    Raises:
        ValueError: the observation has no accessibility tree.
    """
    if observation.elements is None:
        raise ValueError("the walk needs an accessibility tree")
    if position.step >= len(path):
        return WalkMove(Terminate(status="failure"), position)
    step = path[position.step]
    tree = targets(observation.elements)
    if step.operation == "scroll":
        arrived = WalkPosition(position.step + 1)
        return next_move(path, observation, arrived) if step.target in tree else _scroll(step, tree, position)
    missing = [name for name in _targets(step) if name not in tree]
    if missing:
        return _wait(position)
    return WalkMove(_action(step, tree), WalkPosition(position.step + 1))


def _wait(position: WalkPosition) -> WalkMove:
    return _once_more(Wait(seconds=_WAIT_SECONDS), position)


def _scroll(step: PathStep, tree: dict[str, UIElement], position: WalkPosition) -> WalkMove:
    """Scroll over the middle one of the elements with the role of the target, else over what can be scrolled."""
    role = step.target.rpartition("/")[2].partition(":")[0]
    alike = [element for element in tree.values() if element.role == role]
    alike = alike or [element for element in tree.values() if "scrollable_down" in element.states]
    if not alike:
        return _wait(position)
    x, y = alike[len(alike) // 2].bounds.center
    return _once_more(Scroll(x=x, y=y, clicks=-_WHEEL_CLICKS), position)


def _once_more(action: Action, position: WalkPosition) -> WalkMove:
    if position.waits >= _MOST_WAITS:
        return WalkMove(Terminate(status="failure"), position)
    return WalkMove(action, position._replace(waits=position.waits + 1))


def _targets(step: PathStep) -> list[str]:
    """The elements that must be on the screen for a step."""
    named = [step.target, step.text] if step.operation in ("drag", "select") else [step.target]
    return [name for name in named if name]


def _action(step: PathStep, tree: dict[str, UIElement]) -> Action:
    match step.operation:
        case "finish":
            return Terminate(status="success")
        case "type":
            return TypeText(text=step.text)
        case "replace":
            return TypeText(text=step.text, clear=True)
        case "key":
            return PressKeys(keys=tuple(step.text.split("+")))
        case "drag":
            start, end = tree[step.target].bounds.center, tree[step.text].bounds.center
            return Drag(x=start.x, y=start.y, x2=end.x, y2=end.y)
        case "select":
            first, last = tree[step.target].bounds, tree[step.text].bounds
            return Drag(x=first.left, y=first.center.y, x2=last.right - 1, y2=last.center.y)
        case operation:
            x, y = tree[step.target].bounds.center
            button = "right" if operation == "right_tap" else "left"
            return Click(x=x, y=y, button=button, count=2 if operation == "double_tap" else 1)
