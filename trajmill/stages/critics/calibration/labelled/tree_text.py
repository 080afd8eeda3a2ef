"""Parses an accessibility tree as BrowserGym prints it, one element a line: `[147] button 'Submit', clickable`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, Final

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.python_text import parse_expression

_LINE: Final = re.compile(
    r"\s*(?:\[(?P<bid>[^\]\s]+)\]\s+)?(?P<role>[A-Za-z]+)\s+"
    r"(?P<name>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")(?P<rest>.*)"
)
_VALUE: Final = re.compile(r"\bvalue=(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
_ROLES: Final = {
    "RootWebArea": "heading",
    "StaticText": "text",
    "textbox": "text_field",
    "searchbox": "text_field",
    "combobox": "text_field",
    "listitem": "list_item",
    "option": "list_item",
    "menuitem": "menu_item",
    "img": "image",
}
_STATES: Final = ("clickable", "focused", "checked", "selected", "disabled")
_NOWHERE: Final = Box(0, 0, 0, 0)
_FARTHEST: Final = 10**7
"""Largest coordinate of an element that is read, in pixels; what lies farther away is not drawn."""
_MOST: Final = 2000
"""Most elements of one screen that are read; long pages have tens of thousands."""


def read_boxes(properties: Mapping[str, Any]) -> dict[str, Box]:
    """The boxes of the drawn elements, from `extra_element_properties`."""
    boxes: dict[str, Box] = {}
    for bid, found in properties.items():
        bounds = found.get("bbox") if isinstance(found, dict) else None
        if isinstance(bounds, list) and len(bounds) == 4 and all(abs(number) <= _FARTHEST for number in bounds):
            x, y, width, height = (round(number) for number in bounds)
            boxes[bid] = Box(x, y, x + width, y + height)
    return boxes


def read_tree(text: str, boxes: Mapping[str, Box]) -> tuple[UIElement, ...]:
    """The elements that have text, in the order of the lines; other lines are left out."""
    elements: list[UIElement] = []
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        name, rest, bid = _literal(found["name"]), found["rest"], found["bid"] or ""
        held = _VALUE.search(rest)
        value = "" if held is None else _literal(held["value"])
        if name or value:
            elements.append(_element(found["role"], name, rest, bid, value, boxes))
        if len(elements) == _MOST:
            break
    return tuple(elements)


def _element(role: str, name: str, rest: str, bid: str, value: str, boxes: Mapping[str, Box]) -> UIElement:
    known = _ROLES.get(role, role.lower())
    states = tuple(state for state in _STATES if re.search(rf"\b{state}\b(?!='?[Ff]alse)", rest))
    if known == "text_field":
        states = ("editable", *states)
    if role == "RootWebArea":
        states = ("title", *states)
    return UIElement(known, name, boxes.get(bid, _NOWHERE), states, value, bid)


def _literal(quoted: str) -> str:
    try:
        return " ".join(str(ast.literal_eval(parse_expression(quoted))).split())
    except (SyntaxError, ValueError):
        return quoted[1:-1]
