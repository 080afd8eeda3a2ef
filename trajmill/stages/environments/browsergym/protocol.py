"""The messages between an environment and its player process, one line of JSON each, and the elements in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import Record

_ROLES = {
    "button": "button",
    "link": "link",
    "textbox": "text_field",
    "searchbox": "search_field",
    "spinbutton": "text_field",
    "combobox": "combo_box",
    "listbox": "list",
    "option": "list_item",
    "listitem": "list_item",
    "checkbox": "checkbox",
    "radio": "radio",
    "switch": "switch",
    "tab": "tab",
    "menuitem": "menu_item",
    "slider": "slider",
    "image": "image",
    "img": "image",
    "heading": "heading",
    "dialog": "dialog",
    "alertdialog": "dialog",
}
_PRESSED = ("button", "link", "combo_box", "list_item", "checkbox", "radio", "switch", "tab", "menu_item", "slider")
_EDITED = ("text_field", "search_field")
_LEAST_VISIBLE = 0.5
_LEAST_PIXELS = 2
_LONGEST_TEXT = 200


class PlayerRequest(Record):
    call: Literal["reset", "step", "score"]
    task: str = ""
    """BrowserGym's name of the task, e.g. `miniwob.click-test`."""
    seed: int = 0
    arguments: str = "{}"
    """JSON object of the arguments of the task's class."""
    action: str = "{}"


class PlayerScreen(Record):
    png: str
    size: Size
    elements: tuple[UIElement, ...]
    goal: str
    """The task's instruction, on one line."""


class PlayerReward(Record):
    """The reward that the task's validation gave after the last step."""

    reward: float


class PlayerError(Record):
    error: str


class PageTree(NamedTuple):
    """The parts of BrowserGym's observation that describe the elements of a page."""

    nodes: list[dict[str, Any]]
    """`axtree_object["nodes"]`: the nodes of all frames, in the layout of the Chrome DevTools protocol."""
    properties: Mapping[str, Mapping[str, Any]]
    """`extra_element_properties`: by element, its box in pixels of the screenshot, visibility, clickability."""
    focused: str


def read_elements(tree: PageTree, title: str, screen: Size) -> tuple[UIElement, ...]:
    """The visible elements of a page in reading order; the first is a heading with the page's title."""
    by_id = {node["nodeId"]: node for node in tree.nodes}
    elements: list[UIElement] = []
    shown: set[str] = set()
    for node in tree.nodes:
        role = str(_value(node, "role"))
        owner = _owner(node, by_id) if role == "StaticText" else str(node.get("browsergym_id", ""))
        kind = "text" if role == "StaticText" else _ROLES.get(role, "text")
        box = _box(tree.properties.get(owner), screen)
        text = _text(node)
        if box is None or owner in shown or (kind == "text" and not text):
            continue
        shown.add(owner)
        states = tuple(_states(node, kind, bool(tree.properties[owner].get("clickable")), owner == tree.focused))
        value = str(_value(node, "value")) if kind in (*_EDITED, "combo_box", "slider") else ""
        elements.append(UIElement(kind, text, box, states, value, owner))
    heading = UIElement("heading", title, Box(0, 0, screen.width, 1), ("title",))
    return (heading, *sorted(elements, key=lambda element: (element.bounds.top, element.bounds.left)))


def _owner(node: Mapping[str, Any], by_id: Mapping[str, Mapping[str, Any]]) -> str:
    """The id of the nearest element around a text, which has no box of its own."""
    seen: Mapping[str, Any] | None = node
    while seen is not None and "browsergym_id" not in seen:
        seen = by_id.get(seen.get("parentId", ""))
    return str(seen["browsergym_id"]) if seen is not None else ""


def _box(properties: Mapping[str, Any] | None, screen: Size) -> Box | None:
    if properties is None or not properties.get("bbox") or (properties.get("visibility") or 0.0) < _LEAST_VISIBLE:
        return None
    left, top, width, height = properties["bbox"]
    box = Box(
        max(0, round(left)),
        max(0, round(top)),
        min(screen.width, round(left + width)),
        min(screen.height, round(top + height)),
    )
    return box if box.right - box.left >= _LEAST_PIXELS and box.bottom - box.top >= _LEAST_PIXELS else None


def _text(node: Mapping[str, Any]) -> str:
    return " ".join(str(_value(node, "name")).split())[:_LONGEST_TEXT]


def _states(node: Mapping[str, Any], role: str, clickable: bool, focused: bool) -> Iterable[str]:
    properties = {each["name"]: each.get("value", {}).get("value") for each in node.get("properties", ())}
    if clickable or role in (*_PRESSED, *_EDITED):
        yield "clickable"
    if properties.get("checked") in (True, "true"):
        yield "checked"
    if properties.get("selected") is True:
        yield "selected"
    if focused:
        yield "focused"
    if properties.get("disabled") is True:
        yield "disabled"
    if role in _EDITED:
        yield "editable"


def _value(node: Mapping[str, Any], name: str) -> object:
    return node.get(name, {}).get("value", "")
