"""Types of values that fields take, and examples of each: what a person would write there."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from itertools import cycle, product

import yaml

from trajmill.schemas.observation import UIElement
from trajmill.stages.graphs.base import GraphAnswer, GraphSlot, SlotKind, ValueType
from trajmill.stages.graphs.operations import OFF, ON

_INPUTS = {
    "date": ValueType.DATE,
    "time": ValueType.TIME,
    "number": ValueType.NUMBER,
    "email": ValueType.EMAIL,
    "tel": ValueType.PHONE,
    "url": ValueType.LINK,
    "search": ValueType.SEARCH,
}
"""By the type of an input, as the browser's tree has it among the states."""
_LABELS = (
    (r"colou?r (?:name|code)", ValueType.COLOR),
    (r"e-?mail", ValueType.EMAIL),
    (r"phone|mobile|telephone|fax", ValueType.PHONE),
    (r"search|filter|find|query|look for", ValueType.SEARCH),
    (r"website|url|link|homepage", ValueType.LINK),
    (r"date|day|birthday|due|deadline|when", ValueType.DATE),
    (r"time|hour of|o'clock", ValueType.TIME),
    (r"price|amount|cost|budget|total|salary|fee|rate|spent", ValueType.AMOUNT),
    (r"address|street|city|town|place|location|destination", ValueType.ADDRESS),
    (r"hours|minutes|days|weeks|quantity|number|count|pieces|age|guests|people|persons|seats|duration|width|height",
     ValueType.NUMBER),
    (r"title|subject|topic|task|to-?do|headline|project|album|needs to be done|item|card|label|new name|"
     r"(?:file|folder|note|list|board|event|product|item|group|team|playlist|document|page) name", ValueType.TITLE),
    (r"user ?name|your name|first name|last name|full name|nick ?name|customer|client|person|author|owner|leader"
     r"|contact|assignee|recipient|guest|surname|name", ValueType.PERSON),
)  # fmt: skip
"""The first pattern found as whole words in a label decides."""
_TIMES_OF_NOTES = 5
_NUMBER = r"-?\d+(?:[.,]\d+)?"
_NUMBERS, _FEWEST = 20, 4
"""Numbers made for a range, and the fewest examples in it that need none."""


def type_of(element: UIElement) -> ValueType:
    """Return the type of a field, by its input type or a number that it holds, else by its label."""
    held = ValueType.NUMBER if re.fullmatch(_NUMBER, element.value) else None
    told = next((kind for state, kind in _INPUTS.items() if state in element.states), held)
    if told is not None and told is not ValueType.NUMBER:
        return told
    if element.role == "search_field":
        return ValueType.SEARCH
    named = type_of_label(f"{element.text} {re.sub(r'[-_./:]', ' ', element.element_id)}")
    return told if told is ValueType.NUMBER and named is not ValueType.AMOUNT else named


def type_of_label(label: str) -> ValueType:
    """Return the type that words name; `text` if they name none."""
    found = (kind for pattern, kind in _LABELS if re.search(rf"(?<!\w)(?:{pattern})(?!\w)", label, re.IGNORECASE))
    return next(found, ValueType.TEXT)


def may_hold(slot: GraphSlot, answer: GraphAnswer) -> bool:
    """Whether an answer may be entered in a field: not if both types are known and differ."""
    wanted = slot.type if slot.type is not ValueType.TEXT else type_of_label(slot.name)
    told = _type_of_answer(answer)
    return ValueType.TEXT in (told, wanted) or told is wanted


def _type_of_answer(answer: GraphAnswer) -> ValueType:
    """Return what an answer means, by its name; one that is made up without `values` is a title."""
    named = type_of_label(re.sub(r"\{[^}]*\}", "", answer.name))
    is_title = named is ValueType.TEXT and bool(answer.prepare) and not answer.values
    return ValueType.TITLE if is_title else named


@cache
def examples() -> dict[ValueType, tuple[str, ...]]:
    told = yaml.safe_load(files(__package__).joinpath("examples.yaml").read_text(encoding="utf-8"))
    return {ValueType(kind): tuple(map(str, values)) for kind, values in told.items()}


@cache
def notes_of_people() -> tuple[str, ...]:
    """Return what a person writes into a document: what is to be done and when, and whom to call."""
    told = examples()
    calls = zip(told[ValueType.PERSON], cycle(told[ValueType.PHONE]))
    dated = product(told[ValueType.TITLE], told[ValueType.TIME][:_TIMES_OF_NOTES])
    return (*(f"{what} at {when}" for what, when in dated), *(f"{who}, {phone}" for who, phone in calls))


@cache
def results() -> dict[str, str]:
    return dict(each.split(" = ") for each in examples()[ValueType.SUM])


def examples_for(field: UIElement, kind: ValueType) -> tuple[str, ...]:
    """Return examples within a field's limits, or near the number that it holds; made numbers if few of them fit."""
    limits = dict(state.split(":", 1) for state in field.states if state.startswith(("min:", "max:", "step:")))
    is_number, held = kind in (ValueType.NUMBER, ValueType.AMOUNT), re.fullmatch(_NUMBER, field.value)
    if is_number and not limits and held and (size := float(field.value.replace(",", "."))) >= 1:
        limits = {"min": f"{size // 4}", "max": f"{size * 2}"}
    if not limits:
        return examples()[kind]
    if not is_number:
        low, high = limits.get("min", ""), limits.get("max", "~")
        return tuple(each for each in examples()[kind] if low <= each <= high) or examples()[kind]
    step = float(limits.get("step", 1))
    first = float(limits.get("min", 0))
    last = float(limits.get("max", max(first, 0) * 2 + 1000 * step))
    fits = [each for each in examples()[kind] if first <= float(each) <= last and (float(each) - first) % step == 0]
    apart = step * max(1, (last - first) // step // _NUMBERS)
    made = (f"{first + apart * at:.12g}" for at in range(1, _NUMBERS) if first + apart * at <= last)
    return tuple(fits if len(fits) >= _FEWEST else made)


def values_of(slot: GraphSlot, is_one: bool = True) -> tuple[str, ...]:
    """Return the values that a query asks for; `is_one` tells whether it asks for nothing else."""
    offered = (ON, OFF) if slot.kind is SlotKind.SWITCH else (not is_one and slot.common) or slot.values
    default = slot.default or (OFF if slot.kind is SlotKind.SWITCH else "")
    return tuple(value for value in dict.fromkeys(offered) if value and value != default)
