"""The annotations of a sampled path: page descriptions, slot values, and the words for them (paper 6.2, step 2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AnyWidget, Scalar
from trajmill.stages.environments.simulated.app_files.references import AppPlace, bind_text, offered, place_of, shown
from trajmill.stages.environments.simulated.reference_path import resolve_slots
from trajmill.stages.environments.simulated.world import TaskGraph, TaskSlot

NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip

_TEMPLATE_MARKS = re.compile(r"[()\[\]{}|]")
_OPTION_KINDS = ("switch", "checkbox")


class SlotValue(NamedTuple):
    """One slot-value pair of a path (the paper's K', V')."""

    name: str
    page: str
    """The page on which it is set, as `app.screen`."""
    label: str
    kind: str
    value: str
    """The value as the screen shows it; true and false are `on` and `off`."""
    words: tuple[str, ...]
    """Words of a user for the value; empty if it follows from another value or is carried from another app."""
    optional: bool
    carried_from: str
    """Name of the app in which the value is read; empty if it is not carried."""

    @property
    def is_option(self) -> bool:
        return self.kind in _OPTION_KINDS


class PageMetadata(NamedTuple):
    page: str
    app_name: str
    description: str
    """The content and purpose of the page (the paper's d_i)."""
    settings: tuple[SlotValue, ...]
    leave_by: str
    """Label of the last pressed element; empty if a setting leads to the next page, or another app follows."""


class PathMetadata(NamedTuple):
    """The facts about one sampled path that a writer gets (the paper's D', K', V')."""

    task: str
    description: str
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
    accepted: tuple[str, ...]
    """The instruction must have one of these words; empty for a slot that must not be mentioned."""
    refused: tuple[str, ...]
    """Words for its other values; for a slot that must not be mentioned, words for all its values."""

    @property
    def is_typed(self) -> bool:
        return self.kind in ("field", "search")

    @property
    def is_option(self) -> bool:
        return self.kind in _OPTION_KINDS


def known_slots(task: TaskGraph, asked: Mapping[str, Scalar]) -> tuple[KnownSlot, ...]:
    """Return all slots with the words for `asked` values and for others; raises BadInputError for unknown ones."""
    values = resolve_slots(task, asked)
    return tuple(_known(task, slot, asked, values) for slot in task.slots)


def _known(task: TaskGraph, slot: TaskSlot, asked: Mapping[str, Scalar], values: Mapping[str, Scalar]) -> KnownSlot:
    name, kind = slot.spec.name, slot.widget.kind
    match slot.widget:
        case app_spec.Choice(label=label):
            pass
        case app_spec.Toggle(text=label) | app_spec.Stepper(text=label):
            pass
        case app_spec.Input(hint=label):
            pass
        case _:
            label = name.replace("_", " ")
    if kind in _OPTION_KINDS:
        # The label, and the annotated clauses without alternatives that ask to switch it on.
        clauses = (*task.spec.clauses.get(name, ()), *task.spec.heldout_clauses.get(name, ()))
        plain = (clause.removeprefix("and ") for clause in clauses if not _TEMPLATE_MARKS.search(clause))
        words = tuple(dict.fromkeys([label, *plain]))
        return KnownSlot(name, label, kind, words, ()) if name in asked else KnownSlot(name, label, kind, (), words)
    # An instruction may name the value of a slot that follows from others, but no value of a carried slot.
    right = values.get(name) if name in asked or not slot.is_free else None
    possible = slot.values if slot.is_free else offered(slot.widget, task.app(place_of(slot.page).app))
    # The default is included, because an instruction must not ask for it beside another value.
    others = [
        value for value in (*possible, slot.default) if shown(value) and (slot.spec.carried_from or value != right)
    ]
    accepted: tuple[str, ...] = ()
    if name in asked and not slot.spec.carried_from:
        wanted = shown(asked[name])
        words = _slot_words(slot, asked[name])
        if wanted.isdecimal() and int(wanted) < len(NUMBER_WORDS):
            words = (*words, NUMBER_WORDS[int(wanted)])
        elif re.fullmatch(r"0\d:\d\d", wanted):
            words = (*words, wanted[1:])
        accepted = tuple(dict.fromkeys(words))
    refused = dict.fromkeys(word for value in others for word in _slot_words(slot, value))
    return KnownSlot(name, label, kind, accepted, tuple(word for word in refused if word not in accepted))


def _slot_words(slot: TaskSlot, value: Scalar) -> tuple[str, ...]:
    text = shown(value)
    return (*slot.spec.say.get(text, ()), text)


class _Choices(NamedTuple):
    task: TaskGraph
    slots: dict[str, Scalar]
    variables: dict[str, dict[str, Scalar]]
    """By app, the values of its variables after all choices; labels may contain them."""


def path_metadata(task: TaskGraph, path: Sequence[str], asked: Mapping[str, Scalar]) -> PathMetadata:
    """Return the facts about a path of pages with the `asked` values by slot; raises BadInputError for unknown ones."""
    values = resolve_slots(task, asked)
    slots = {
        slot.spec.name: values[slot.spec.name]
        for slot in task.slots
        if (slot.spec.implied_by.slot if slot.spec.implied_by else slot.spec.name) in asked
    }
    variables = {app.app: app.start_values() for app in task.apps}
    for slot in task.slots:
        if slot.spec.name in slots:
            variables[place_of(slot.page).app][slot.widget.sets] = slots[slot.spec.name]
    choices = _Choices(task, slots, variables)
    pages = tuple(_page(choices, page, after) for page, after in zip(path, (*path[1:], ""), strict=True))
    constraints = tuple(_slot_value(choices, slot) for slot in task.slots if slot.spec.name in asked)
    return PathMetadata(task.name, task.spec.description, task.platform, pages, constraints)


def _page(choices: _Choices, page: str, following: str) -> PageMetadata:
    here, there = place_of(page), place_of(following)
    target = there.name if here.app == there.app else ""
    operated = [each for each in _operated(choices, here) if not each[0].leads_to or target in each[0].leads_to]
    app = choices.task.app(here.app)
    screen = app.screens[here.name]
    leave_by = ""
    if target and not any(widget.leads_to for widget, _ in operated):
        buttons = (each for each in screen.all_widgets() if isinstance(each, app_spec.Button) and each.to == target)
        leave_by = next((_label(button, choices.variables[here.app]) for button in buttons), "")
    return PageMetadata(page, app.name, screen.description, tuple(setting for _, setting in operated), leave_by)


def _operated(choices: _Choices, here: AppPlace) -> Iterator[tuple[AnyWidget, SlotValue]]:
    task = choices.task
    slots = {slot.widget.id: slot for slot in task.slots if slot.page == str(here) and slot.spec.name in choices.slots}
    always: dict[str, Scalar] = {}
    for page, widgets in task.spec.always.items():
        always.update(widgets if task.place(page) == here else {})
    for widget in task.app(here.app).screens[here.name].all_widgets():
        if widget.id in slots:
            yield widget, _slot_value(choices, slots[widget.id])
        elif widget.id in always:
            label = _label(widget, choices.variables[here.app])
            value = bind_text(shown(always[widget.id]), choices.slots)
            yield widget, SlotValue(widget.id, str(here), label, widget.kind, value, (), False, "")


def _slot_value(choices: _Choices, slot: TaskSlot) -> SlotValue:
    spec, value = slot.spec, shown(choices.slots[slot.spec.name])
    return SlotValue(
        name=spec.name,
        page=slot.page,
        label=_label(slot.widget, choices.variables[place_of(slot.page).app]),
        kind=slot.widget.kind,
        value=value,
        words=spec.say.get(value, (value,)) if slot.is_free and not spec.carried_from else (),
        optional=spec.optional,
        carried_from=choices.task.app(choices.task.place(spec.carried_from).app).name if spec.carried_from else "",
    )


def _label(widget: AnyWidget, variables: Mapping[str, Scalar]) -> str:
    match widget:
        case app_spec.Choice():
            return widget.label
        case app_spec.Input():
            return widget.hint
        case app_spec.Button() | app_spec.Toggle() | app_spec.Stepper():
            return bind_text(widget.text, variables)
        case app_spec.ItemList():
            return widget.id
        case _:
            return ""
