"""Collects the words for the slots of a task, which instructions are checked with (paper 6.2).

The slot-value pairs of a task are annotated by hand, so values that a writer invents are found without a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from trajmill.stages.environments.simulated.annotations.base import KnownSlot
from trajmill.stages.environments.simulated.app_files.app_spec import Choice, Input, Scalar, Stepper, Toggle
from trajmill.stages.environments.simulated.app_files.binding import shown
from trajmill.stages.environments.simulated.app_files.pages import AppPlace, offered, place_of
from trajmill.stages.environments.simulated.goals.reference_path import resolve_slots
from trajmill.stages.environments.simulated.world import TaskGraph, TaskSlot

NUMBER_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
"""Number words, by their number."""

_TEMPLATE_MARKS = re.compile(r"[()\[\]{}|]")


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
    label = _label(slot)
    if kind in ("switch", "checkbox"):
        words = _option_words(task, slot)
        return KnownSlot(name, label, kind, words, ()) if name in asked else KnownSlot(name, label, kind, (), words)
    is_asked = name in asked and not slot.spec.carried_from
    # An instruction may name the value of a slot that follows from others, but no value of a carried slot.
    right = values.get(name) if name in asked or not slot.is_free else None
    others = [value for value in _offered(task, slot) if slot.spec.carried_from or value != right]
    accepted = (*_words(slot, asked[name]), *_same_number(shown(asked[name]))) if is_asked else ()
    accepted = tuple(dict.fromkeys(accepted))
    refused = dict.fromkeys(word for value in others for word in _words(slot, value))
    return KnownSlot(name, label, kind, accepted, tuple(word for word in refused if word not in accepted))


def _offered(task: TaskGraph, slot: TaskSlot) -> tuple[Scalar, ...]:
    place: AppPlace = place_of(slot.page)
    found = slot.values if slot.is_free else offered(slot.widget, task.app(place.app))
    # The default is included, because an instruction must not ask for it beside another value.
    return tuple(value for value in (*found, slot.default) if shown(value))


def _words(slot: TaskSlot, value: Scalar) -> tuple[str, ...]:
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
    return tuple(dict.fromkeys([_label(slot), *plain]))


def _label(slot: TaskSlot) -> str:
    match slot.widget:
        case Choice(label=label):
            return label
        case Toggle(text=text) | Stepper(text=text):
            return text
        case Input(hint=hint):
            return hint
        case _:
            return slot.spec.name.replace("_", " ")
