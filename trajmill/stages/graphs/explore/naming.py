"""Gives pages, elements and slots names that people can read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain, count

from trajmill.schemas.observation import UIElement

_LONGEST = 40
_NEAR = 40
"""Most pixels between an element and the text that labels it."""
_SIGNS = {
    "+": "plus",
    "-": "minus",
    "*": "times",
    "×": "times",
    "/": "divide",
    "÷": "divide",
    "=": "equals",
    "%": "percent",
    ".": "point",
    "(": "open",
    ")": "close",
    "<": "less",
    ">": "more",
}
_ADDRESS = re.compile(r"[/#?&=._-]+")


def slug(text: str) -> str:
    """A text as a name: small letters, digits and `-`; empty if nothing is left."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST].strip("-")


def unique(name: str, taken: Iterable[str]) -> str:
    names, candidates = set(taken), chain([name], (f"{name}-{number}" for number in count(2)))
    return next(candidate for candidate in candidates if candidate not in names)


def element_names(elements: Mapping[str, UIElement], taken: Iterable[str] = ()) -> dict[str, str]:
    """By target, a name for each element: its text, its id or its role."""
    names: dict[str, str] = {}
    used = set(taken)
    for target, element in elements.items():
        names[target] = unique(word_of(element) or "element", used)
        used.add(names[target])
    return names


def word_of(element: UIElement) -> str:
    """An element's text, id, signs or role, as a name."""
    own_id = slug(last_word_of_id(element))
    # A text with a number in it, such as "Clear completed (1)", changes.
    if own_id and any(map(str.isdigit, element.text)):
        return own_id
    signs = "-".join(_SIGNS[sign] for sign in element.text if sign in _SIGNS)
    return slug(element.text) or signs or own_id or slug(element.role)


def label_beside(element: UIElement, others: Iterable[UIElement]) -> str:
    """The text nearest to an element that has none: on its row, or right above it; empty without one."""
    box, gaps = element.bounds, dict[str, int]()
    for each in others:
        if each.role != "text" or not each.text:
            continue
        in_row = each.bounds.top <= box.center.y < each.bounds.bottom
        in_column = each.bounds.left == box.left and each.bounds.bottom <= box.top
        if in_row:
            gaps[each.text] = max(box.left - each.bounds.right, each.bounds.left - box.right)
        elif in_column:
            gaps[each.text] = box.top - each.bounds.bottom
    label = min(gaps, key=gaps.__getitem__, default="")
    return label.rstrip(": ") if label and 0 <= gaps[label] <= _NEAR else ""


def label_of(element: UIElement) -> str:
    """The default name of a slot: the text of its element, else its id, else its role."""
    return element.text or last_word_of_id(element) or element.role


def last_word_of_id(element: UIElement) -> str:
    return element.element_id.rpartition("/")[2].rpartition(":")[2]


def name_of_address(address: str) -> str:
    """The last word of an address within a site, e.g. `active` for `/todo/#/active`; empty without one."""
    words = [word for word in _ADDRESS.split(address) if word and not word.isdigit() and word != "html"]
    return slug(words[-1]) if words else ""
