"""What may be said of each slot of a task: the knowledge that an instruction is checked against (paper 6.2).

The slot-value pairs of a task are annotated by hand, so a writer's inventions can be found without asking a model.
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
"""By the number that they stand for."""

_TEMPLATE_MARKS = re.compile(r"[()\[\]{}|]")


def known_slots(task: TaskGraph, asked: Mapping[str, Scalar]) -> tuple[KnownSlot, ...]:
    """Every slot of a task, with the words for the value that is asked for and those for all other values.

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
    told = name in asked and not slot.spec.carried_from
    # The right value of a slot that follows from others may be named; of a slot that is carried, none may be.
    right = values.get(name) if name in asked or not slot.is_free else None
    others = [value for value in _offered(task, slot) if slot.spec.carried_from or value != right]
    accepted = (*_words(slot, asked[name]), *_same_number(shown(asked[name]))) if told else ()
    accepted = tuple(dict.fromkeys(accepted))
    refused = dict.fromkeys(word for value in others for word in _words(slot, value))
    return KnownSlot(name, label, kind, accepted, tuple(word for word in refused if word not in accepted))


def _offered(task: TaskGraph, slot: TaskSlot) -> tuple[Scalar, ...]:
    place: AppPlace = place_of(slot.page)
    found = slot.values if slot.is_free else offered(slot.widget, task.app(place.app))
    # The default counts too: an instruction must not ask for it beside another value.
    return tuple(value for value in (*found, slot.default) if shown(value))


def _words(slot: TaskSlot, value: Scalar) -> tuple[str, ...]:
    """The annotated words for a value, and the value as it is shown."""
    text = shown(value)
    return (*slot.spec.say.get(text, ()), text)


def _same_number(text: str) -> Iterable[str]:
    """Other ways to write the same number or time of the day."""
    if text.isdecimal() and int(text) < len(NUMBER_WORDS):
        return (NUMBER_WORDS[int(text)],)
    return (text[1:],) if re.fullmatch(r"0\d:\d\d", text) else ()


def _option_words(task: TaskGraph, slot: TaskSlot) -> tuple[str, ...]:
    """The label of a switch, and the clauses without alternatives by which its author says that it is to be on."""
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
