"""Parses what BrowserGym writes as text: the actions of agents and the accessibility trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from trajmill.schemas import actions
from trajmill.schemas.actions import Action, Click, MoveMouse, PressKeys, TypeText
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.text import parse_expression

Boxes = Mapping[str, Box]
"""The box of each element, by its BrowserGym id."""

_NOTCH: Final = 100
"""Pixels of one click of the mouse wheel."""
_LONGEST: Final = 20_000
"""Most characters of an action; longer ones are not parsed."""
_FARTHEST: Final = 10**7
"""Largest coordinate of an element that is read, in pixels; what lies farther away is not drawn."""
_MOST: Final = 2000
"""Most elements of one screen that are read; long pages have tens of thousands."""


def read_browser_action(text: str, boxes: Boxes) -> Action | None:
    """Return the action of a call; None if it is no known call, or its element is not drawn."""
    try:
        tree = parse_expression(text.strip()[:_LONGEST])
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            return None
        arguments = [ast.literal_eval(argument) for argument in tree.args]
        named = {each.arg: ast.literal_eval(each.value) for each in tree.keywords if each.arg is not None}
        return _READERS[tree.func.id](boxes, *arguments, **named)
    except (SyntaxError, ValueError, TypeError, KeyError, MemoryError, RecursionError, OverflowError):
        return None


def _click(boxes: Boxes, bid: str, button: str = "left", modifiers: Any = (), count: int = 1) -> Action:
    return Click.model_validate({**boxes[bid].center._asdict(), "button": button, "count": count})


_READERS: Final[Mapping[str, Callable[..., Action]]] = {
    "click": _click,
    "dblclick": lambda boxes, bid, button="left", modifiers=(): _click(boxes, bid, button, count=2),
    "focus": lambda boxes, bid: _click(boxes, bid),
    "hover": lambda boxes, bid: MoveMouse.model_validate(boxes[bid].center._asdict()),
    "fill": lambda boxes, bid, value, enable_autocomplete_menu=False: TypeText(text=value, clear=True),
    "clear": lambda boxes, bid: TypeText(text="", clear=True),
    "select_option": lambda boxes, bid, options: TypeText(
        text=options if isinstance(options, str) else ", ".join(options), clear=True
    ),
    "press": lambda boxes, bid, key_comb: PressKeys(keys=tuple(key_comb.split("+"))),
    "keyboard_press": lambda boxes, key: PressKeys(keys=tuple(key.split("+"))),
    "keyboard_type": lambda boxes, text: TypeText(text=text),
    "keyboard_insert_text": lambda boxes, text: TypeText(text=text),
    "scroll": lambda boxes, delta_x, delta_y: actions.Scroll(clicks=round(-delta_y / _NOTCH)),
    "drag_and_drop": lambda boxes, from_bid, to_bid: actions.Drag(
        **boxes[from_bid].center._asdict(), **dict(zip(("x2", "y2"), boxes[to_bid].center, strict=True))
    ),
    "mouse_click": lambda boxes, x, y, button="left": Click(x=round(x), y=round(y), button=button),
    "mouse_move": lambda boxes, x, y: MoveMouse(x=round(x), y=round(y)),
    "goto": lambda boxes, url: actions.OpenApp(app=url),
    "go_back": lambda boxes: actions.SystemButton(button="Back"),
    "go_forward": lambda boxes: PressKeys(keys=("alt", "right")),
    "new_tab": lambda boxes: PressKeys(keys=("ctrl", "t")),
    "tab_close": lambda boxes: PressKeys(keys=("ctrl", "w")),
    "tab_focus": lambda boxes, index: PressKeys(keys=("ctrl", str(index + 1))),
    "noop": lambda boxes, wait_ms=1000: actions.Wait(seconds=wait_ms / 1000),
    "send_msg_to_user": lambda boxes, text: actions.Answer(text=text),
    "report_infeasible": lambda boxes, reason="": actions.Terminate(status="failure"),
}

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


def read_boxes(properties: Mapping[str, Any]) -> dict[str, Box]:
    """Return the boxes of the drawn elements, from `extra_element_properties`."""
    boxes: dict[str, Box] = {}
    for bid, found in properties.items():
        bounds = found.get("bbox") if isinstance(found, dict) else None
        if isinstance(bounds, list) and len(bounds) == 4 and all(abs(number) <= _FARTHEST for number in bounds):
            x, y, width, height = (round(number) for number in bounds)
            boxes[bid] = Box(x, y, x + width, y + height)
    return boxes


def read_tree(text: str, boxes: Mapping[str, Box]) -> tuple[UIElement, ...]:
    """Return the elements that have text, in the order of the lines; other lines are left out."""
    elements: list[UIElement] = []
    for found in map(_LINE.match, text.splitlines()):
        if found is None:
            continue
        name, rest, role = _literal(found["name"]), found["rest"], found["role"]
        held = _VALUE.search(rest)
        value = "" if held is None else _literal(held["value"])
        if name or value:
            known, bid = _ROLES.get(role, role.lower()), found["bid"] or ""
            first = ("editable",) if known == "text_field" else ("title",) if role == "RootWebArea" else ()
            states = (state for state in _STATES if re.search(rf"\b{state}\b(?!='?[Ff]alse)", rest))
            elements.append(UIElement(known, name, boxes.get(bid, Box(0, 0, 0, 0)), (*first, *states), value, bid))
        if len(elements) == _MOST:
            break
    return tuple(elements)


def _literal(quoted: str) -> str:
    try:
        return " ".join(str(ast.literal_eval(parse_expression(quoted))).split())
    except (SyntaxError, ValueError):
        return quoted[1:-1]
