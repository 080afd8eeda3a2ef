"""Read the accessibility XML of an OSWorld machine as UI elements."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.etree import ElementTree

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.environments.desktop.protocol import COMPONENT, STATE, VALUE

_SAME = ("switch", "heading", "link", "image", "slider", "menu")
_ROLES_BY_ROLE = {
    **{role: (role,) for role in _SAME},
    **{role: (role.replace("_", "-"),) for role in ("combo_box", "progress_bar")},
    "button": ("push-button", "button", "toggle-button", "push-button-menu"),
    "checkbox": ("check-box",),
    "radio": ("radio-button",),
    "menu_item": ("menu-item", "check-menu-item", "radio-menu-item"),
    "text_field": ("text", "entry", "password-text", "spin-button", "editbar", "paragraph", "terminal"),
    "text": ("label", "static"),
    "tab": ("page-tab",),
    "list_item": ("list-item", "tree-item", "table-cell"),
    "column_header": ("table-column-header", "column-header"),
    "icon": ("icon", "desktop-icon"),
}
_ROLES = {name: role for role, names in _ROLES_BY_ROLE.items() for name in names}
_PRESSABLE = frozenset(
    {"button", "checkbox", "switch", "radio", "combo_box", "menu", "menu_item", "text_field", "link", "tab"}
    | {"list_item", "column_header", "icon", "slider"}
)
_WINDOWS = frozenset({"frame", "dialog", "alert", "file-chooser", "color-chooser", "font-chooser", "window"})
_NAMING = frozenset({"menu", "page-tab", "tool-bar", "dialog", "alert", "file-chooser"})
"""Roles of ancestors whose names tell two elements of the same name apart."""
_SHEET_CELL = re.compile("[A-Z]{1,3}[0-9]+")
_PAIR = re.compile(r"\(\s*(-?\d+)\s*,\s*(-?\d+)\s*\)")
_LONGEST_TEXT = 2000
_DOCUMENT_TYPE = re.compile("<!DOCTYPE", re.IGNORECASE)


class DesktopTree(NamedTuple):
    elements: tuple[UIElement, ...]
    """The elements in reading order; the first is the title of the window with the keyboard focus."""
    app: str


class _DrawnObject(NamedTuple):
    xml: ElementTree.Element
    role: str
    bounds: Box
    program: str
    window: _Window | None
    path: tuple[str, ...]
    label: str


class _Window(NamedTuple):
    title: str
    role: str
    bounds: Box
    program: str
    active: bool
    modal: bool


@dataclass
class _Reader:
    whole: Box
    nodes: list[_DrawnObject] = field(default_factory=list)
    windows: list[_Window] = field(default_factory=list)

    def visit(
        self,
        xml: ElementTree.Element,
        program: str,
        window: _Window | None,
        path: tuple[str, ...],
        label: str,
        view: Box,
    ) -> None:
        bounds = _bounds(xml, view)
        shown = bounds is not None and bounds.area > 0 and _has(xml, "showing") and _has(xml, "visible")
        name = xml.get("name", "").strip()
        if shown and bounds is not None and xml.tag in _WINDOWS and window is None:
            window = _Window(name, xml.tag, bounds, program, _has(xml, "active"), _has(xml, "modal"))
            self.windows.append(window)
        elif shown and bounds is not None and xml.tag in _ROLES:
            self.nodes.append(_DrawnObject(xml, _ROLES[xml.tag], bounds, program, window, path, label))
        if xml.tag == "list-item":
            # The parts of a row repeat the text of the row.
            return
        below = (*path, name) if name and xml.tag in _NAMING and not (xml.tag in _WINDOWS and path) else path
        # Icon views report objects as showing that are scrolled out of their pane; a menu opens beyond its pane.
        seen = self.whole if xml.tag == "menu" else view
        if shown and bounds is not None and xml.tag == "scroll-pane":
            seen = bounds
        labels = [child for child in xml if child.tag == "label"]
        inherited = label if xml.tag == "combo-box" else ""
        for child in xml:
            named = _own_text(labels[0]) if len(labels) == 1 and child.tag != "label" else inherited
            self.visit(child, program, window, below, named, seen)


def read_elements(text: str, screen: Size) -> DesktopTree:
    """Return the elements that no other window covers; raises EnvironmentFailure if the text is not such XML."""
    if _DOCUMENT_TYPE.search(text):
        raise EnvironmentFailure("the accessibility tree declares a document type")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise EnvironmentFailure(f"the accessibility tree is no XML: {error}") from error
    whole = Box(0, 0, screen.width, screen.height)
    reader = _Reader(whole)
    for program in root.iter("application"):
        for child in program:
            reader.visit(child, program.get("name", ""), None, (), "", whole)
    front = _front(reader.windows, reader.nodes)
    drawn = [_element(node) for node in reader.nodes if _reachable(node, front) and not _is_inner(node)]
    place = front.bounds if front else whole
    title = front.title if front else ""
    elements = [UIElement("heading", title, Box(place.left, place.top, place.right, place.top + 1), ("title",))]
    # The second and later elements with the same id get a number.
    seen: dict[str, int] = {}
    for element in drawn:
        count = seen[element.element_id] = seen.get(element.element_id, 0) + 1
        elements.append(element if count == 1 else element._replace(element_id=f"{element.element_id}#{count}"))
    return DesktopTree(tuple(elements), front.program if front else "")


def _front(windows: Iterable[_Window], nodes: Iterable[_DrawnObject]) -> _Window | None:
    """The active window; if several are active, a modal one; if none is, the window of an open menu."""
    active = [window for window in windows if window.active and window.role != "window"]
    menus = (node for node in nodes if node.role == "menu")
    opened = (node.window for node in menus if _has(node.xml, "selected") or _has(node.xml, "focused"))
    return max(active, key=lambda window: window.modal, default=next(opened, None))


def _reachable(node: _DrawnObject, front: _Window | None) -> bool:
    """Whether a press at the node's centre reaches it: it is not behind the front window nor blocked by a modal one."""
    if front is None or node.window is front or (node.window is not None and node.window.role == "window"):
        return True
    covered = front.bounds.contains(*node.bounds.center)
    if node.window is None:
        # Its program does not report its window.
        return node.program == front.program and covered
    return not covered and not (front.modal and node.program == front.program)


def _is_inner(node: _DrawnObject) -> bool:
    """Whether a node is a part of a list row that only repeats the row, or an image without a name."""
    if node.role == "image" or (node.role == "icon" and not _own_text(node.xml)):
        return not _own_text(node.xml)
    if node.xml.tag == "table-cell":
        return not _text_below(node.xml) or any(child.tag == "table-cell" for child in node.xml)
    return False


def _element(node: _DrawnObject) -> UIElement:
    xml, role = node.xml, node.role
    own = _own_text(xml)
    text, value = own, ""
    if role == "text_field":
        text, value = xml.get("name", "").strip() or node.label, xml.text or xml.get(f"{VALUE}value") or ""
    elif role == "list_item" and _SHEET_CELL.fullmatch(own) and xml.tag == "table-cell":
        role, value = "cell", xml.text or ""
    elif role == "combo_box":
        text, value = node.label, own
    elif role in ("slider", "progress_bar"):
        text, value = own or node.label, xml.get(f"{VALUE}value") or ""
    elif role == "list_item" and not own:
        text = _text_below(xml)
    named = "/".join((node.program, *node.path, f"{role}:{text}" if text else role))
    return UIElement(role, text[:_LONGEST_TEXT], node.bounds, _states(xml, role), value[:_LONGEST_TEXT], named)


def _states(xml: ElementTree.Element, role: str) -> tuple[str, ...]:
    disabled = not (_has(xml, "sensitive") or _has(xml, "enabled"))
    holding = {
        "clickable": (role in _PRESSABLE or role == "cell") and not disabled,
        "checked": _has(xml, "checked") or _has(xml, "pressed"),
        "selected": _has(xml, "selected"),
        "focused": _has(xml, "focused"),
        "editable": role in ("text_field", "cell") and _has(xml, "editable"),
        "disabled": disabled and role in _PRESSABLE,
        "password": xml.tag == "password-text",
    }
    return tuple(name for name, holds in holding.items() if holds)


def _has(xml: ElementTree.Element, state: str) -> bool:
    return xml.get(f"{STATE}{state}") == "true"


def _own_text(xml: ElementTree.Element) -> str:
    return " ".join((xml.get("name") or xml.text or "").split())


def _text_below(xml: ElementTree.Element) -> str:
    texts = map(_own_text, (*xml.iter("label"), *xml.iter()))
    return next((text for text in texts if text), "")


def _bounds(xml: ElementTree.Element, view: Box) -> Box | None:
    corner = _PAIR.fullmatch(xml.get(f"{COMPONENT}screencoord", ""))
    size = _PAIR.fullmatch(xml.get(f"{COMPONENT}size", ""))
    if corner is None or size is None:
        return None
    left, top = int(corner[1]), int(corner[2])
    return Box(left, top, left + int(size[1]), top + int(size[2])).within(view)
