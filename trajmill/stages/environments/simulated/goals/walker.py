"""Walks an annotated path: scrolls to targets, closes pop-ups and goes back after a wrong page."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.actions import Action, Click, Scroll, Swipe, SystemButton, Terminate, TypeText, Wait
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.simulated.goals.reference_path import LAUNCHER

_WHEEL_CLICKS = 5


class Position(NamedTuple):
    """The position of a walk on its path."""

    step: int = 0
    """Index of the next operation."""
    upwards: bool = False
    """Whether the walk scrolls up, because it has not found the target below."""


class Move(NamedTuple):
    """One action of a walk, and the position after it."""

    action: Action
    position: Position


class Walker(NamedTuple):
    """Chooses the concrete actions of one annotated path."""

    path: tuple[PathStep, ...]
    platform: Platform

    def next_action(self, observation: Observation, position: Position) -> Move:
        """The next action for a screen; the last is `Terminate`, with status failure if the walk cannot continue.

        Raises:
            ValueError: the observation has no accessibility tree.
        """
        if observation.elements is None:
            raise ValueError("the walk needs an accessibility tree")
        tree = {element.element_id: element for element in observation.elements if element.element_id}
        page = observation.elements[0].element_id.partition("/")[0] if observation.elements else ""
        if page == "loading":
            return Move(Wait(), position)
        if page == "popup":
            return Move(_click(tree["popup/0"]), position)
        position = self._on_path(page, position)
        if position.step >= len(self.path):
            return Move(Terminate(status="failure"), position)
        step = self.path[position.step]
        if step.operation == "finish":
            return Move(Terminate(status="success"), position)
        if step.operation == "open":
            return self._open(step.target, tree, page, position)
        if page == LAUNCHER:
            return self._resume(step.page.partition(".")[0], tree, position)
        target = tree.get(step.target)
        if step.operation == "scroll" and target is not None:
            return self.next_action(observation, Position(position.step + 1))
        if target is None or not target.clickable:
            return self._reveal(page, step, tree, position)
        if step.operation == "type":
            if "focused" in target.states:
                return Move(TypeText(text=step.text), Position(position.step + 1))
            return Move(_click(target), position)
        return Move(_click(target), Position(position.step + 1))

    def _on_path(self, page: str, position: Position) -> Position:
        """Go back to the operation of the shown page, so that a press without effect is repeated."""
        here = position.step
        if here >= len(self.path) or page in (LAUNCHER, self.path[here].page):
            return position
        if self.path[here].operation == "open":
            return position
        for earlier in range(here - 1, -1, -1):
            if self.path[earlier].page == page:
                return Position(earlier)
        return position

    def _open(self, name: str, tree: dict[str, UIElement], page: str, position: Position) -> Move:
        if page != LAUNCHER:
            return Move(self._leave(tree), position)
        icon = next((element for element in tree.values() if element.role == "icon" and element.text == name), None)
        if icon is None:
            return self._scroll(page, tree, position)
        return Move(self._open_icon(icon), Position(position.step + 1))

    def _resume(self, app: str, tree: dict[str, UIElement], position: Position) -> Move:
        icon = tree.get(f"{LAUNCHER}/{app}")
        return Move(self._open_icon(icon), position) if icon else self._scroll(LAUNCHER, tree, position)

    def _open_icon(self, icon: UIElement) -> Action:
        return _click(icon, 2 if self.platform is Platform.DESKTOP else 1)

    def _leave(self, tree: dict[str, UIElement]) -> Action:
        if self.platform is Platform.PHONE:
            return SystemButton(button="Home")
        home = tree.get("taskbar/desktop")
        return _click(home or next(element for element in tree.values() if element.text == "Close"))

    def _reveal(self, page: str, step: PathStep, tree: dict[str, UIElement], position: Position) -> Move:
        """Scroll to the target of a step."""
        if "keyboard" in tree:
            return Move(SystemButton(button="Enter"), position)
        if page != step.page:
            return Move(self._back(tree), position)
        return self._scroll(page, tree, position)

    def _back(self, tree: dict[str, UIElement]) -> Action:
        if self.platform is Platform.PHONE:
            return SystemButton(button="Back")
        return _click(next(element for element in tree.values() if element.text in ("Back", "Close")))

    def _scroll(self, page: str, tree: dict[str, UIElement], position: Position) -> Move:
        """Scroll down, and from the end of the page up."""
        region = tree.get(f"{page}/scroll")
        if region is None:
            return Move(Terminate(status="failure"), position)
        upwards = position.upwards or "scrollable_down" not in region.states
        if upwards and "scrollable_up" not in region.states:
            return Move(Terminate(status="failure"), position)
        x, y = region.bounds.center
        if self.platform is Platform.DESKTOP:
            turn: Action = Scroll(x=x, y=y, clicks=_WHEEL_CLICKS if upwards else -_WHEEL_CLICKS)
        else:
            reach = (region.bounds.bottom - region.bounds.top) // 3
            start, end = (y - reach, y + reach) if upwards else (y + reach, y - reach)
            turn = Swipe(x=x, y=start, x2=x, y2=end)
        return Move(turn, position._replace(upwards=upwards))


def _click(element: UIElement, count: int = 1) -> Click:
    x, y = element.bounds.center
    return Click(x=x, y=y, count=count)
