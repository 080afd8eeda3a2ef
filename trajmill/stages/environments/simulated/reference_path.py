"""Derives the annotated reference path of a query from the app files, and walks it (paper 6.2, step 5, and 6.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from trajmill.schemas.actions import Action, Click, Scroll, Swipe, SystemButton, Terminate, TypeText, Wait
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.simulated.app_files.app_spec import (
    AnyWidget,
    Button,
    Choice,
    Input,
    Item,
    ItemList,
    ListChange,
    Scalar,
    Stepper,
    Toggle,
)
from trajmill.stages.environments.simulated.app_files.references import (
    BACK,
    AppPlace,
    all_lists,
    bind,
    bind_record,
    menu_of,
    offered,
    place_of,
    shown,
    start_values,
    target_of,
    variable_of,
    widgets_of,
)
from trajmill.stages.environments.simulated.state import Goal, goal_to_json, start_state_to_json
from trajmill.stages.environments.simulated.world import TaskGraph, TaskSlot

LAUNCHER = "launcher"
"""The page on which apps are opened."""
_WHEEL_CLICKS = 5


def resolve_slots(task: TaskGraph, asked: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The typed value of every slot: the wanted value, one that follows from it, or the default.

    Raises:
        BadInputError: an unknown slot, a value its widget does not offer, or a required slot that was not asked for.
    """
    known = {slot.spec.name: slot for slot in task.slots}
    for name in asked:
        if name not in known:
            raise BadInputError(f"the task `{task.name}` has no slot `{name}`; use one of {', '.join(known)}")
    values: dict[str, Scalar] = {}
    for name, slot in known.items():
        if name in asked:
            values[name] = _typed(task, slot, asked[name])
        elif slot.spec.optional:
            values[name] = slot.default
        elif slot.is_free:
            raise BadInputError(f"the task `{task.name}` needs a value for the slot `{name}`")
    for name, slot in known.items():
        if slot.spec.implied_by and name not in asked:
            values[name] = _implied(task, slot, values)
    return values


def reference_path(task: TaskGraph, pages: Sequence[str], slot_values: Mapping[str, Scalar]) -> tuple[PathStep, ...]:
    """The operations of a task along a path of its DAG, from the start of the apps.

    Args:
        task: the task.
        pages: a path of the DAG as `app.screen`, from its start to an end.
        slot_values: the wanted values by slot, typed or as the screen shows them.

    Raises:
        BadInputError: as `resolve_slots`; or the pages are no path of the DAG.
    """
    values = resolve_slots(task, slot_values)
    steps: list[PathStep] = []
    places = [place_of(page) for page in pages]
    for app, _ in groupby(places, key=lambda place: place.app):
        if app not in {each.app for each in task.apps}:
            raise BadInputError(f"the task `{task.name}` does not use the app `{app}`")
    for index, place in enumerate(places):
        if index == 0 or places[index - 1].app != place.app:
            steps.append(PathStep(page=LAUNCHER, operation="open", target=task.app(place.app).name))
        following = places[index + 1] if index + 1 < len(places) else None
        leads = following.name if following and following.app == place.app else ""
        steps.extend(_page_steps(task, place, leads, values))
    return (*steps, PathStep(page=_end(task, places, values), operation="finish", target=""))


def goal_json(task: TaskGraph, slot_values: Mapping[str, Scalar]) -> str:
    """The goal check for these slots; raises as `resolve_slots`."""
    values = resolve_slots(task, slot_values)
    goal: Goal = {}
    for name, change in task.spec.goal.items():
        place = str(task.place(name))
        if isinstance(change, ListChange):
            goal[place] = ListChange(
                append=bind_record(change.append, values) if change.append is not None else None,
                update=bind_record(change.update, values) if change.update is not None else None,
                remove=change.remove,
                name=bind(change.name, values),
            )
        else:
            goal[place] = bind(change, values)
    return goal_to_json(goal)


def start_state_json(task: TaskGraph, slot_values: Mapping[str, Scalar]) -> str:
    """The start state for these slots, `{}` if the task needs no setup; raises as `resolve_slots`."""
    values = resolve_slots(task, slot_values)
    setup: dict[str, Item] = {
        str(task.place(name)): bind_record(record, values) for name, record in task.spec.setup.items()
    }
    return start_state_to_json(setup)


def _typed(task: TaskGraph, slot: TaskSlot, value: Scalar) -> Scalar:
    """The value with the type of its widget; a text for an input, or for a list that a reset fills, is not changed."""
    offers = (*offered(slot.widget, task.app(place_of(slot.page).app)), *slot.spec.values)
    for offer in offers:
        if shown(offer) == shown(value):
            return offer
    if isinstance(slot.widget, Input | ItemList):
        return value
    raise BadInputError(
        f"the slot `{slot.spec.name}` of `{task.name}` does not offer `{value}`; "
        f"use one of {', '.join(map(shown, offers))}"
    )


def _implied(task: TaskGraph, slot: TaskSlot, values: Mapping[str, Scalar]) -> Scalar:
    implied = slot.spec.implied_by
    assert implied is not None
    place = place_of(implied.list, place_of(slot.page).app)
    wanted = values[implied.slot]
    for item in all_lists(task.app(place.app))[place.name]:
        if item.get("name") == wanted:
            return item[implied.field]
    return slot.default


def _page_steps(task: TaskGraph, place: AppPlace, leads: str, values: Mapping[str, Scalar]) -> Iterator[PathStep]:
    """The operations on a page: its slots from top to bottom, then the widget that leads to the next page."""
    wanted = _wanted(task, place, values)
    way = _way(task, place, leads, wanted) if leads else None
    screen = task.app(place.app).screens[place.name]
    for widget in widgets_of(screen):
        strays = leads and target_of(widget) not in ("", place.name)
        if widget.id in wanted and widget is not way and not strays:
            yield from _operations(task, place, widget, wanted[widget.id])
    if way is not None:
        yield from _operations(task, place, way, wanted.get(way.id, True))


def _end(task: TaskGraph, places: Sequence[AppPlace], values: Mapping[str, Scalar]) -> str:
    """The page at the end: the last one, or the page that its last operation opens."""
    place = places[-1]
    wanted = _wanted(task, place, values)
    widgets = widgets_of(task.app(place.app).screens[place.name])
    leads = [target_of(widget) for widget in widgets if widget.id in wanted and target_of(widget)]
    if not leads:
        return str(place)
    return str(places[-2] if leads[-1] == BACK and len(places) > 1 else AppPlace(place.app, leads[-1]))


def _wanted(task: TaskGraph, place: AppPlace, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """By widget, the value to set on a page."""
    wanted: dict[str, Scalar] = {}
    for page, widgets in task.spec.always.items():
        if task.place(page) == place:
            wanted.update({widget: bind(value, values) for widget, value in widgets.items()})
    for slot in task.slots:
        value = values[slot.spec.name]
        unasked = slot.spec.optional and value == slot.default
        if slot.page == str(place) and not unasked:
            wanted[slot.spec.widget] = value
    return wanted


def _way(task: TaskGraph, place: AppPlace, leads: str, wanted: Mapping[str, Scalar]) -> AnyWidget:
    """The widget that leads to the next page: one with a wanted value, else the first button."""
    screen = task.app(place.app).screens[place.name]
    ways = [widget for widget in widgets_of(screen) if target_of(widget) == leads]
    for way in ways:
        if way.id in wanted:
            return way
    for way in ways:
        if isinstance(way, Button):
            return way
    raise BadInputError(f"the task `{task.name}` has no way from `{place}` to `{place.app}.{leads}`")


def _operations(task: TaskGraph, place: AppPlace, widget: AnyWidget, value: Scalar) -> Iterator[PathStep]:
    app = task.app(place.app)
    target = f"{place}/{widget.id}"
    held = start_values(app).get(variable_of(widget))
    match widget:
        case Button():
            menu = menu_of(app.screens[place.name], widget)
            if menu is not None:
                yield _tap(place, f"{place}/{menu.id}")
            yield _tap(place, target)
        case ItemList():
            yield _tap(place, f"{target}/{shown(value)}")
        case Choice() if value != held:
            yield _tap(place, f"{target}/{shown(value)}")
        case Toggle() if value != held:
            yield _tap(place, target)
        case Stepper():
            steps = int(value) - int(held or 0)
            for _ in range(abs(steps)):
                yield _tap(place, f"{target}/{'+' if steps > 0 else '-'}")
        case Input() if value != held:
            yield PathStep(page=str(place), operation="type", target=target, text=shown(value))
        case _:
            return


def _tap(place: AppPlace, target: str) -> PathStep:
    return PathStep(page=str(place), operation="tap", target=target)


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
