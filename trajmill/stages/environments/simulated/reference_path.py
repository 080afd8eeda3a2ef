"""Derive the annotated reference path of a query from the app files, and walk it (paper 6.2, step 5, and 6.4)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas import actions
from trajmill.schemas.actions import Action, Answer, Click, Scroll, Swipe, SystemButton, Terminate, TypeText, Wait
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.observation import SLIDER_MARK, Observation, UIElement
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AnyWidget, Scalar
from trajmill.stages.environments.simulated.app_files.references import (
    BACK,
    AppPlace,
    bind,
    bind_record,
    offered,
    place_of,
    shown,
)
from trajmill.stages.environments.simulated.world import Goal, TaskGraph, TaskSlot, goal_to_json, start_state_to_json

LAUNCHER = "launcher"
GIVE_UP = "give_up"
"""The operation that ends a path instead of `finish`: look from the top to the end of the page, then report failure."""
ANSWER = "answer"
"""The operation that ends a path instead of `finish`: look at the target, then answer with the text."""
_WHEEL_CLICKS = 5


def resolve_slots(task: TaskGraph, asked: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the typed value of every slot: asked, implied, or the default; raises BadInputError for a wrong one."""
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
        implied = slot.spec.implied_by
        if implied and name not in asked:
            place = place_of(implied.list, place_of(slot.page).app)
            items = task.app(place.app).all_lists()[place.name]
            picked = (item for item in items if item.get("name") == values[implied.slot])
            values[name] = next((item[implied.field] for item in picked), slot.default)
    return values


def _typed(task: TaskGraph, slot: TaskSlot, value: Scalar) -> Scalar:
    """The value with the type of its widget; a text for an input, or for a list that a reset fills, is not changed."""
    offers = (*offered(slot.widget, task.app(place_of(slot.page).app)), *slot.spec.values)
    for offer in offers:
        if shown(offer) == shown(value):
            return offer
    if isinstance(slot.widget, app_spec.Input | app_spec.ItemList):
        return value
    raise BadInputError(
        f"the slot `{slot.spec.name}` of `{task.name}` does not offer `{value}`; "
        f"use one of {', '.join(map(shown, offers))}"
    )


def reference_path(task: TaskGraph, pages: Sequence[str], slot_values: Mapping[str, Scalar]) -> tuple[PathStep, ...]:
    """Return the operations along `pages` (`app.screen`) of the DAG; raises BadInputError if these are no path."""
    values = resolve_slots(task, slot_values)
    steps: list[PathStep] = []
    places = [place_of(page) for page in pages]
    for place in places:
        if place.app not in {each.app for each in task.apps}:
            raise BadInputError(f"the task `{task.name}` does not use the app `{place.app}`")
    wanted: dict[str, Scalar] = {}
    for index, place in enumerate(places):
        if index == 0 or places[index - 1].app != place.app:
            steps.append(PathStep(page=LAUNCHER, operation="open", target=task.app(place.app).name))
        following = places[index + 1] if index + 1 < len(places) else None
        target = following.name if following and following.app == place.app else ""
        wanted = _wanted(task, place, values)
        steps.extend(_page_steps(task, place, target, wanted))
    # The path ends on its last page, or on the page that the last operation there opens.
    end = places[-1]
    widgets = task.app(end.app).screens[end.name].all_widgets()
    opened = [widget.leads_to[0] for widget in widgets if widget.id in wanted and widget.leads_to]
    if opened:
        end = places[-2] if opened[-1] == BACK and len(places) > 1 else AppPlace(end.app, opened[-1])
    return (*steps, PathStep(page=str(end), operation="finish", target=""))


def path_to(task: TaskGraph, pages: Sequence[str], slot_values: Mapping[str, Scalar], end: PathStep) -> list[PathStep]:
    """Return the operations that lead to the page of `end`, one of `pages`, and then `end`."""
    before = reference_path(task, pages[: pages.index(end.page) + 1], slot_values)[:-1]
    return [*(step for step in before if step.page != end.page), end]


def _page_steps(task: TaskGraph, place: AppPlace, target: str, wanted: Mapping[str, Scalar]) -> Iterator[PathStep]:
    """The operations on a page: its slots from top to bottom, then the widget that leads to the next page."""
    screen = task.app(place.app).screens[place.name]
    last: AnyWidget | None = None
    before: AnyWidget | None = None
    if target:
        leading = [widget for widget in screen.all_widgets() if target in widget.leads_to]
        # One with a wanted value, else the first button.
        choices = [each for each in leading if each.id in wanted]
        choices += [each for each in leading if isinstance(each, app_spec.Button)]
        if not choices:
            raise BadInputError(f"the task `{task.name}` has no way from `{place}` to `{place.app}.{target}`")
        last = choices[0]
    for widget in screen.all_widgets():
        strays = target and any(to != place.name for to in widget.leads_to)
        if widget.id in wanted and widget is not last and not strays:
            yield from _operations(task, place, widget, wanted[widget.id], "")
            before = widget
    if isinstance(before, app_spec.Input) and last is not None and before.enter == last.id:
        yield PathStep(page=str(place), operation="enter", target=f"{place}/{before.id}")
    elif last is not None:
        yield from _operations(task, place, last, wanted.get(last.id, True), target)


def _wanted(task: TaskGraph, place: AppPlace, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
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


def _operations(
    task: TaskGraph, place: AppPlace, widget: AnyWidget, value: Scalar, following: str
) -> Iterator[PathStep]:
    app = task.app(place.app)
    target = f"{place}/{widget.id}"
    held = app.start_values().get(widget.sets)
    taps: list[str] = []
    operation = "tap"
    match widget:
        case app_spec.Button():
            menu = app.screens[place.name].menu_of(widget)
            taps = [*([f"{place}/{menu.id}"] if menu else []), target]
        case app_spec.ItemList():
            taps = [f"{target}/{shown(value)}"]
            operation = "hold" if following and following == widget.hold else "tap"
        case app_spec.Choice() if value != held:
            taps = [f"{target}/{shown(value)}"]
        case app_spec.Toggle() if value != held:
            taps = [target]
        case app_spec.Stepper():
            steps = int(value) - int(held or 0)
            taps = [f"{target}/{'+' if steps > 0 else '-'}"] * abs(steps)
        case app_spec.Input() if value != held:
            yield PathStep(page=str(place), operation="type", target=target, text=shown(value))
    for each in taps:
        yield PathStep(page=str(place), operation=operation, target=each)


def goal_json(task: TaskGraph, slot_values: Mapping[str, Scalar]) -> str:
    values = resolve_slots(task, slot_values)
    goal: Goal = {}
    for name, change in task.spec.goal.items():
        place = str(task.place(name))
        if isinstance(change, app_spec.ListChange):
            goal[place] = app_spec.ListChange(
                append=bind_record(change.append, values) if change.append is not None else None,
                update=bind_record(change.update, values) if change.update is not None else None,
                remove=change.remove,
                name=bind(change.name, values),
            )
        else:
            goal[place] = bind(change, values)
    return goal_to_json(goal)


def unchanged_json(task: TaskGraph, **end: object) -> str:
    """Return the goal that leaves all that the task would change as it is, and asks for another `end`."""
    goal: Goal = {}
    for place in (task.place(name) for name in task.spec.goal):
        start = task.app(place.app).state[place.name]
        goal[str(place)] = app_spec.ListChange() if isinstance(start, tuple) else start
    return json.dumps({**json.loads(goal_to_json(goal)), **end}, sort_keys=True)


def start_state_json(task: TaskGraph, slot_values: Mapping[str, Scalar], without: Mapping[str, Scalar] = {}) -> str:
    values = resolve_slots(task, slot_values)
    setup = {str(task.place(name)): bind_record(record, values) for name, record in task.spec.setup.items()}
    return start_state_to_json(setup, without)


class WalkPosition(NamedTuple):
    step: int = 0
    waits: int = 0
    """Number of waits and scrolls for its target so far; the walker counts none."""
    upwards: bool = False
    """Whether it scrolls up, as the target is not below; before it gives up, whether it has been at the list's top."""


class WalkMove(NamedTuple):
    action: Action
    position: WalkPosition


class Walker(NamedTuple):
    path: tuple[PathStep, ...]
    platform: Platform

    def next_action(self, observation: Observation, position: WalkPosition) -> WalkMove:
        """Return the next action; the last is `Terminate`, with status failure if the walk cannot continue."""
        if observation.elements is None:
            raise ValueError("the walk needs an accessibility tree")
        tree = {element.element_id: element for element in observation.elements if element.element_id}
        page = observation.elements[0].element_id.partition("/")[0] if observation.elements else ""
        if page == "loading":
            return WalkMove(Wait(), position)
        if page == "popup":
            return WalkMove(_click(tree["popup/0"]), position)
        position = self._on_path(page, position)
        if position.step >= len(self.path):
            return WalkMove(Terminate(status="failure"), position)
        step, following = self.path[position.step], WalkPosition(position.step + 1)
        if step.operation == "finish":
            return WalkMove(Terminate(status="success"), position)
        if step.operation == "open" and page != LAUNCHER:
            if self.platform is Platform.PHONE:
                return WalkMove(SystemButton(button="Home"), position)
            closing = tree.get("taskbar/desktop") or next(each for each in tree.values() if each.text == "Close")
            return WalkMove(_click(closing), position)
        if page == LAUNCHER:
            return self._on_launcher(step, tree, position)
        target = tree.get(step.target)
        if step.operation == "scroll" and target is not None:
            return self.next_action(observation, following)
        if step.operation == ANSWER and target is not None:
            return WalkMove(Answer(text=step.text), following)
        if step.operation == GIVE_UP and page == step.page:
            upwards = target is not None and "scrollable_up" in target.states and not position.upwards
            if target is None or not (upwards or "scrollable_down" in target.states):
                return WalkMove(Terminate(status="failure"), position)
            return WalkMove(scroll_over(target, self.platform, upwards), position._replace(upwards=not upwards))
        if target is None or not (target.clickable or target.role == SLIDER_MARK):
            if "keyboard" in tree:
                return WalkMove(SystemButton(button="Enter"), position)
            if page != step.page and self.platform is Platform.PHONE:
                return WalkMove(SystemButton(button="Back"), position)
            if page != step.page:
                leaving = next(each for each in tree.values() if each.text in ("Back", "Close"))
                return WalkMove(_click(leaving), position)
            return self._scroll(page, tree, position)
        return self._at(target, step, tree, position)

    def _on_launcher(self, step: PathStep, tree: Mapping[str, UIElement], position: WalkPosition) -> WalkMove:
        opening = step.operation == "open"
        icon = (
            next((each for each in tree.values() if each.role == "icon" and each.text == step.target), None)
            if opening
            else tree.get(f"{LAUNCHER}/{step.page.partition('.')[0]}")
        )
        if icon is None:
            return self._scroll(LAUNCHER, tree, position)
        presses = 2 if self.platform is Platform.DESKTOP else 1
        return WalkMove(_click(icon, presses), WalkPosition(position.step + 1) if opening else position)

    def _at(self, target: UIElement, step: PathStep, tree: Mapping[str, UIElement], position: WalkPosition) -> WalkMove:
        """Do the operation of a step on its element; an input is focused first."""
        touch, following = self.platform is Platform.PHONE, WalkPosition(position.step + 1)
        if step.operation == "type":
            if "focused" in target.states:
                return WalkMove(TypeText(text=step.text), following)
            return WalkMove(_click(target), position)
        if step.operation == "enter":
            key = SystemButton(button="Enter") if touch else actions.PressKeys(keys=("enter",))
            return WalkMove(key, following) if "focused" in target.states else WalkMove(_click(target), position)
        if step.operation == "hold":
            return WalkMove(actions.hold(target.bounds.center, touch=touch), following)
        if target.role == SLIDER_MARK:
            marks = step.target.rpartition("/")[0]
            knob = next(each for name, each in tree.items() if name.startswith(marks) and "checked" in each.states)
            return WalkMove(actions.drag(knob.bounds.center, target.bounds.center, touch=touch), following)
        return WalkMove(_click(target), following)

    def _on_path(self, page: str, position: WalkPosition) -> WalkPosition:
        """Go back to the operation of the shown page, so that a press without effect is repeated."""
        here = position.step
        if here >= len(self.path) or page in (LAUNCHER, self.path[here].page) or self.path[here].operation == "open":
            return position
        earlier = (step for step in range(here - 1, -1, -1) if self.path[step].page == page)
        return next((WalkPosition(step) for step in earlier), position)

    def _scroll(self, page: str, tree: Mapping[str, UIElement], position: WalkPosition) -> WalkMove:
        region = tree.get(f"{page}/scroll")
        if region is None:
            return WalkMove(Terminate(status="failure"), position)
        upwards = position.upwards or "scrollable_down" not in region.states
        if upwards and "scrollable_up" not in region.states:
            return WalkMove(Terminate(status="failure"), position)
        return WalkMove(scroll_over(region, self.platform, upwards), position._replace(upwards=upwards))


def _click(element: UIElement, count: int = 1) -> Click:
    x, y = element.bounds.center
    return Click(x=x, y=y, count=count)


def scroll_over(element: UIElement, platform: Platform, upwards: bool = False) -> Scroll | Swipe:
    """Turn the wheel once over an element; on a phone, move a finger over two thirds of it."""
    x, y = element.bounds.center
    if platform is Platform.PHONE:
        reach = (element.bounds.bottom - element.bounds.top) // 3
        start, end = (y - reach, y + reach) if upwards else (y + reach, y - reach)
        return Swipe(x=x, y=start, x2=x, y2=end)
    return Scroll(x=x, y=y, clicks=_WHEEL_CLICKS if upwards else -_WHEEL_CLICKS)
