"""Gives pages, elements and slots names that people can read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain, count
from urllib.parse import unquote

from trajmill.schemas.observation import UIElement

_LONGEST = 40
_LONGEST_LABEL = 60
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
}
_FEWEST_ROWS = 2
_ROW_BEGINNINGS = frozenset({"text", "link", "cell", "heading", "list_item", "button"})
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
    """The text nearest to an element that has none: on its row, or right above it; empty without one.

    A sentence explains, and is no label.
    """
    box, gaps = element.bounds, dict[str, int]()
    for each in others:
        if each.role not in ("text", "cell") or not each.text or is_sentence(each.text):
            continue
        in_row = each.bounds.top <= box.center.y < each.bounds.bottom
        in_column = each.bounds.left == box.left and each.bounds.bottom <= box.top
        if in_row:
            gaps[each.text] = max(box.left - each.bounds.right, each.bounds.left - box.right)
        elif in_column:
            gaps[each.text] = box.top - each.bounds.bottom
    label = min(gaps, key=gaps.__getitem__, default="")
    return label.rstrip(": ") if label and 0 <= gaps[label] <= _NEAR else ""


def is_unlabelled(element: UIElement) -> bool:
    """Whether a person sees no name of an element: it has no text, or its id in place of one."""
    return element.text in ("", element.element_id)


def is_sentence(text: str) -> bool:
    return len(text) > _LONGEST_LABEL or text.endswith(".")


def name_by_row(element: UIElement, others: Iterable[UIElement]) -> str | None:
    """The text that begins the row of a box without one of its own, as in a table or a list of tasks.

    Empty if another row with such a box begins alike, so that nobody could name it; None if it begins no row.
    """
    shown = list(others)
    boxes = (each for each in shown if each.role == element.role and is_unlabelled(each))
    begins = [_begin_of_row(box, shown) for box in boxes if box.bounds.left == element.bounds.left]
    own = _begin_of_row(element, shown) if is_unlabelled(element) else ""
    if not own or len(begins) < _FEWEST_ROWS:
        return None
    return own if begins.count(own) == 1 else ""


def _begin_of_row(box: UIElement, others: Iterable[UIElement]) -> str:
    y = box.bounds.center.y
    right = (
        each for each in others if each.bounds.left >= box.bounds.left and each.bounds.top <= y < each.bounds.bottom
    )
    row = [each for each in right if each.text and each.role in _ROW_BEGINNINGS]
    return min(row, key=lambda each: each.bounds.left).text if row else ""


def label_of(element: UIElement) -> str:
    """The default name of a slot: the text of its element, else its id in words, else its role."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", last_word_of_id(element))
    return (element.text if not is_unlabelled(element) else words.lower()) or element.role


def last_word_of_id(element: UIElement) -> str:
    return element.element_id.rpartition("/")[2].rpartition(":")[2]


def name_of_address(address: str) -> str:
    """The last word of an address within a site, e.g. `active` for `/todo/#/active`; empty without one."""
    parts = _ADDRESS.split(unquote(address))
    words = [word for word in parts if slug(word) and not word.isdigit() and word != "html"]
    return slug(words[-1]) if words else ""
