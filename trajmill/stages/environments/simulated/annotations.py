"""The annotations of a sampled path: page descriptions, slot values, and the words for them (paper 6.2, step 2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.tables.query import Platform
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
from trajmill.stages.environments.simulated.app_files.references import (
    AppPlace,
    bind_text,
    offered,
    place_of,
    shown,
    start_values,
    target_of,
    variable_of,
    widgets_of,
)
from trajmill.stages.environments.simulated.reference_path import resolve_slots
from trajmill.stages.environments.simulated.world import TaskGraph, TaskSlot

NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
"""Number words, by their number."""

_TEMPLATE_MARKS = re.compile(r"[()\[\]{}|]")


class SlotValue(NamedTuple):
    """One slot-value pair of a path (the paper's K', V')."""

    name: str
    page: str
    """The page on which it is set, as `app.screen`."""
    label: str
    """The page's name of the choice, e.g. `Size`."""
    kind: str
    """Kind of widget: list, choice, switch, checkbox, stepper, field, search."""
    value: str
    """The value as the screen shows it; true and false are `on` and `off`."""
    words: tuple[str, ...]
    """Words that a user may have for the value; empty if it is not said, because it follows from another value or is
    carried from another app."""
    optional: bool
    carried_from: str
    """Name of the app in which the value is read; empty if it is not carried."""

    @property
    def is_option(self) -> bool:
        """Whether its value is on or off."""
        return self.kind in ("switch", "checkbox")


class PageMetadata(NamedTuple):
    """One page of a path."""

    page: str
    """`app.screen`."""
    app_name: str
    description: str
    """The content and purpose of the page (the paper's d_i)."""
    settings: tuple[SlotValue, ...]
    """The values that are set on the page, in the order of its widgets."""
    leave_by: str
    """Label of the last pressed element; empty if a setting leads to the next page, or another app follows."""


class PathMetadata(NamedTuple):
    """The facts about one sampled path that a writer gets (the paper's D', K', V')."""

    task: str
    """`app.task` or `errand.task`."""
    description: str
    """Name of the task, e.g. `Order a dish`."""
    platform: Platform
    pages: tuple[PageMetadata, ...]
    constraints: tuple[SlotValue, ...]
    """The values that the user asks for, set on this path or carried along it."""


class KnownSlot(NamedTuple):
    """The words that an instruction must and must not have for one slot of a task."""

    name: str
    label: str
    """The page's name of the choice; the slot's own name if the page has none."""
    kind: str
    """Kind of widget, as in `SlotValue`."""
    accepted: tuple[str, ...]
    """The instruction must have one of these words; empty for a slot that must not be mentioned."""
    refused: tuple[str, ...]
    """Words for its other values; for a slot that must not be mentioned, words for all its values."""

    @property
    def is_typed(self) -> bool:
        """Whether its value is a text that the user gives word for word."""
        return self.kind in ("field", "search")

    @property
    def is_option(self) -> bool:
        """Whether its value is on or off."""
        return self.kind in ("switch", "checkbox")


def known_slots(task: TaskGraph, asked: Mapping[str, Scalar]) -> tuple[KnownSlot, ...]:
    """All slots of a task, with the words for the wanted value and those for its other values.

    Args:
        task: the task.
        asked: by slot, the value that the user asks for.

    Raises:
        BadInputError: the task has no such slot or value.
    """
    values = resolve_slots(task, asked)
    return tuple(_known(task, slot, asked, values) for slot in task.slots)


def _known(task: TaskGraph, slot: TaskSlot, asked: Mapping[str, Scalar], values: Mapping[str, Scalar]) -> KnownSlot:
    name, kind = slot.spec.name, slot.widget.kind
    label = _slot_label(slot)
    if kind in ("switch", "checkbox"):
        words = _option_words(task, slot)
        return KnownSlot(name, label, kind, words, ()) if name in asked else KnownSlot(name, label, kind, (), words)
    is_asked = name in asked and not slot.spec.carried_from
    # An instruction may name the value of a slot that follows from others, but no value of a carried slot.
    right = values.get(name) if name in asked or not slot.is_free else None
    others = [value for value in _offered(task, slot) if slot.spec.carried_from or value != right]
    accepted = (*_slot_words(slot, asked[name]), *_same_number(shown(asked[name]))) if is_asked else ()
    accepted = tuple(dict.fromkeys(accepted))
    refused = dict.fromkeys(word for value in others for word in _slot_words(slot, value))
    return KnownSlot(name, label, kind, accepted, tuple(word for word in refused if word not in accepted))


def _offered(task: TaskGraph, slot: TaskSlot) -> tuple[Scalar, ...]:
    place: AppPlace = place_of(slot.page)
    found = slot.values if slot.is_free else offered(slot.widget, task.app(place.app))
    # The default is included, because an instruction must not ask for it beside another value.
    return tuple(value for value in (*found, slot.default) if shown(value))


def _slot_words(slot: TaskSlot, value: Scalar) -> tuple[str, ...]:
    """The annotated words for a value, and the value as the screen shows it."""
    text = shown(value)
    return (*slot.spec.say.get(text, ()), text)


def _same_number(text: str) -> Iterable[str]:
    """Other spellings of the same number or time of the day."""
    if text.isdecimal() and int(text) < len(NUMBER_WORDS):
        return (NUMBER_WORDS[int(text)],)
    return (text[1:],) if re.fullmatch(r"0\d:\d\d", text) else ()


def _option_words(task: TaskGraph, slot: TaskSlot) -> tuple[str, ...]:
    """The label of a switch, and the annotated clauses without alternatives that ask to switch it on."""
    name = slot.spec.name
    clauses = (*task.spec.clauses.get(name, ()), *task.spec.heldout_clauses.get(name, ()))
    plain = (clause.removeprefix("and ") for clause in clauses if not _TEMPLATE_MARKS.search(clause))
    return tuple(dict.fromkeys([_slot_label(slot), *plain]))


def _slot_label(slot: TaskSlot) -> str:
    match slot.widget:
        case Choice(label=label):
            return label
        case Toggle(text=text) | Stepper(text=text):
            return text
        case Input(hint=hint):
            return hint
        case _:
            return slot.spec.name.replace("_", " ")


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
