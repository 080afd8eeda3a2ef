"""Types of values that fields take, and examples of each: what a person would write there."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files

import yaml

from trajmill.schemas.observation import UIElement
from trajmill.stages.graphs.base import ValueType

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
    (r"title|subject|topic|task|to-?do|headline|project|album|needs to be done|item|card|note name", ValueType.TITLE),
    (r"user ?name|your name|first name|last name|full name|nick ?name|customer|client|person|author|owner|leader"
     r"|contact|assignee|recipient|guest|surname|name", ValueType.PERSON),
)  # fmt: skip
"""The first pattern found as whole words in a label decides."""


def type_of(element: UIElement) -> ValueType:
    """Return the type of a field, by its input type, else by its label."""
    told = next((kind for state, kind in _INPUTS.items() if state in element.states), None)
    if told is not None and told is not ValueType.NUMBER:
        return told
    if element.role == "search_field":
        return ValueType.SEARCH
    named = type_of_label(f"{element.text} {re.sub(r'[-_./:]', ' ', element.element_id)}")
    if told is ValueType.NUMBER:
        return named if named is ValueType.AMOUNT else told
    return named


def type_of_label(label: str) -> ValueType:
    """Return the type that words name; `text` if they name none."""
    found = (kind for pattern, kind in _LABELS if re.search(rf"(?<!\w)(?:{pattern})(?!\w)", label, re.IGNORECASE))
    return next(found, ValueType.TEXT)


@cache
def examples() -> dict[ValueType, tuple[str, ...]]:
    """Return the packaged example values of each type."""
    told = yaml.safe_load(files(__package__).joinpath("examples.yaml").read_text(encoding="utf-8"))
    return {ValueType(kind): tuple(map(str, values)) for kind, values in told.items()}


def fresh_example(kind: ValueType, used: Collection[str]) -> str:
    """Return an example of a type that was not used yet; the last one once all were."""
    return next((each for each in examples()[kind] if each not in used), examples()[kind][-1])
