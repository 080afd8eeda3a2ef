"""Collects the descriptions and the slot-value pairs of a sampled path (paper 6.2, step 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.stages.environments.simulated.annotations.base import PageMetadata, PathMetadata, SlotValue
from trajmill.stages.environments.simulated.app_files.app_spec import (
    AnyWidget,
    Button,
    Choice,
    Input,
    ItemList,
    Scalar,
    Stepper,
    Toggle,
)
from trajmill.stages.environments.simulated.app_files.binding import bind_text, shown
from trajmill.stages.environments.simulated.app_files.pages import (
    AppPlace,
    place_of,
    start_values,
    target_of,
    variable_of,
    widgets_of,
)
from trajmill.stages.environments.simulated.goals.reference_path import resolve_slots
from trajmill.stages.environments.simulated.world import TaskGraph, TaskSlot


class _Choices(NamedTuple):
    """The wanted values, and everything that follows from them."""

    task: TaskGraph
    slots: dict[str, Scalar]
    """Values of the slots that are asked for, or follow from such a slot."""
    variables: dict[str, dict[str, Scalar]]
    """By app, the values of its variables after all choices; labels may contain them."""


def path_metadata(task: TaskGraph, path: Sequence[str], asked: Mapping[str, Scalar]) -> PathMetadata:
    """The facts about one path that a writer gets.

    Args:
        task: the task.
        path: pages of its navigation graph as `app.screen`.
        asked: by slot, the value that the user asks for.

    Raises:
        BadInputError: the task has no such slot or value.
    """
    choices = _resolve(task, asked)
    following = (*path[1:], "")
    pages = tuple(_page(choices, page, after) for page, after in zip(path, following, strict=True))
    constraints = tuple(_slot_value(choices, slot) for slot in task.slots if slot.spec.name in asked)
    return PathMetadata(task.name, task.spec.description, task.platform, pages, constraints)


def _resolve(task: TaskGraph, asked: Mapping[str, Scalar]) -> _Choices:
    values = resolve_slots(task, asked)
    slots = {slot.spec.name: values[slot.spec.name] for slot in task.slots if _is_set(slot, asked)}
    variables = {app.app: start_values(app) for app in task.apps}
    for slot in task.slots:
        if slot.spec.name in slots:
            variables[place_of(slot.page).app][variable_of(slot.widget)] = slots[slot.spec.name]
    return _Choices(task, slots, variables)


def _is_set(slot: TaskSlot, asked: Mapping[str, Scalar]) -> bool:
    return (slot.spec.implied_by.slot if slot.spec.implied_by else slot.spec.name) in asked


def _page(choices: _Choices, page: str, following: str) -> PageMetadata:
    here, there = place_of(page), place_of(following)
    target = there.name if here.app == there.app else ""
    operated = [each for each in _operated(choices, here) if target_of(each[0]) in ("", target)]
    leads_on = any(target_of(widget) for widget, _ in operated)
    app = choices.task.app(here.app)
    return PageMetadata(
        page,
        app.name,
        app.screens[here.name].description,
        tuple(setting for _, setting in operated),
        _way(choices, here, target) if target and not leads_on else "",
    )


def _operated(choices: _Choices, here: AppPlace) -> Iterator[tuple[AnyWidget, SlotValue]]:
    task = choices.task
    slots = {slot.widget.id: slot for slot in task.slots if slot.page == str(here) and slot.spec.name in choices.slots}
    always: dict[str, Scalar] = {}
    for page, widgets in task.spec.always.items():
        always.update(widgets if task.place(page) == here else {})
    for widget in widgets_of(task.app(here.app).screens[here.name]):
        if widget.id in slots:
            yield widget, _slot_value(choices, slots[widget.id])
        elif widget.id in always:
            label = _label(widget, choices.variables[here.app])
            value = bind_text(shown(always[widget.id]), choices.slots)
            yield widget, SlotValue(widget.id, str(here), label, widget.kind, value, (), False, "")


def _slot_value(choices: _Choices, slot: TaskSlot) -> SlotValue:
    spec, value = slot.spec, shown(choices.slots[slot.spec.name])
    is_said = slot.is_free and not spec.carried_from
    return SlotValue(
        name=spec.name,
        page=slot.page,
        label=_label(slot.widget, choices.variables[place_of(slot.page).app]),
        kind=slot.widget.kind,
        value=value,
        words=spec.say.get(value, (value,)) if is_said else (),
        optional=spec.optional,
        carried_from=choices.task.app(choices.task.place(spec.carried_from).app).name if spec.carried_from else "",
    )


def _way(choices: _Choices, here: AppPlace, target: str) -> str:
    for widget in widgets_of(choices.task.app(here.app).screens[here.name]):
        if isinstance(widget, Button) and widget.to == target:
            return _label(widget, choices.variables[here.app])
    return ""


def _label(widget: AnyWidget, variables: Mapping[str, Scalar]) -> str:
    match widget:
        case Choice():
            return widget.label
        case Input():
            return widget.hint
        case Button() | Toggle() | Stepper():
            return bind_text(widget.text, variables)
        case ItemList():
            return widget.id
        case _:
            return ""
