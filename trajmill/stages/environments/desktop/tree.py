"""Reads the accessibility XML of an OSWorld machine as the elements that agents see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.etree import ElementTree

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.environments.desktop.protocol import COMPONENT, STATE, VALUE

_ROLES = {
    "push-button": "button",
    "button": "button",
    "toggle-button": "button",
    "push-button-menu": "button",
    "check-box": "checkbox",
    "switch": "switch",
    "radio-button": "radio",
    "combo-box": "combo_box",
    "menu": "menu",
    "menu-item": "menu_item",
    "check-menu-item": "menu_item",
    "radio-menu-item": "menu_item",
    "text": "text_field",
    "entry": "text_field",
    "password-text": "text_field",
    "spin-button": "text_field",
    "editbar": "text_field",
    "paragraph": "text_field",
    "terminal": "text_field",
    "label": "text",
    "static": "text",
    "heading": "heading",
    "link": "link",
    "page-tab": "tab",
    "list-item": "list_item",
    "tree-item": "list_item",
    "table-cell": "list_item",
    "table-column-header": "column_header",
    "column-header": "column_header",
    "icon": "icon",
    "desktop-icon": "icon",
    "image": "image",
    "slider": "slider",
    "progress-bar": "progress_bar",
}
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
    """The elements on the screen of a machine."""

    elements: tuple[UIElement, ...]
    """The elements in reading order; the first is the title of the window with the keyboard focus."""
    app: str
    """The program with the keyboard focus; empty if none has it."""


class _DrawnObject(NamedTuple):
    """An object on the screen, with its program, window and ancestors."""

    xml: ElementTree.Element
    role: str
    bounds: Box
    program: str
    window: _Window | None
    path: tuple[str, ...]
    """The names of the menus, dialogs and tabs around it."""
    label: str
    """The text of the label beside it."""


class _Window(NamedTuple):
    title: str
    role: str
    bounds: Box
    program: str
    active: bool
    modal: bool


@dataclass
class _Reader:
    """Walks the XML and collects the objects on the screen."""

    screen: Size
    nodes: list[_DrawnObject] = field(default_factory=list)
    windows: list[_Window] = field(default_factory=list)

    def program(self, xml: ElementTree.Element) -> None:
        for child in xml:
            self._visit(child, xml.get("name", ""), None, (), "", self._whole())

    def _visit(
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
        if shown and bounds is not None and xml.tag in _WINDOWS and window is None:
            window = _window(xml, program, bounds)
            self.windows.append(window)
        elif shown and bounds is not None and xml.tag in _ROLES:
            self.nodes.append(_DrawnObject(xml, _ROLES[xml.tag], bounds, program, window, path, label))
        name = xml.get("name", "").strip()
        below = (*path, name) if name and xml.tag in _NAMING and not (xml.tag in _WINDOWS and path) else path
        labels = [child for child in xml if child.tag == "label"]
        if xml.tag == "list-item":
            # The parts of a row repeat the text of the row.
            return
        # Icon views report objects as showing that are scrolled out of their pane; a menu opens beyond its pane.
        seen = self._whole() if xml.tag == "menu" else view
        if shown and bounds is not None and xml.tag == "scroll-pane":
            seen = bounds
        for child in xml:
            beside = labels[0] if len(labels) == 1 and child.tag != "label" else None
            inherited = label if xml.tag == "combo-box" else ""
            named = _own_text(beside) if beside is not None else inherited
            self._visit(child, program, window, below, named, seen)

    def _whole(self) -> Box:
        return Box(0, 0, self.screen.width, self.screen.height)


def read_elements(text: str, screen: Size) -> DesktopTree:
    """The elements of a tree, without those that another window covers.

    Raises:
        EnvironmentFailure: the text is not such XML.
    """
    if _DOCUMENT_TYPE.search(text):
        raise EnvironmentFailure("the accessibility tree declares a document type")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise EnvironmentFailure(f"the accessibility tree is no XML: {error}") from error
    reader = _Reader(screen)
    for program in root.iter("application"):
        reader.program(program)
    front = _front(reader.windows, reader.nodes)
    drawn = [node for node in reader.nodes if _reachable(node, front) and not _is_inner(node, reader.nodes)]
    title = front.title if front else ""
    place = front.bounds if front else Box(0, 0, screen.width, screen.height)
    heading = UIElement("heading", title, Box(place.left, place.top, place.right, place.top + 1), ("title",))
    return DesktopTree((heading, *_numbered(map(_element, drawn))), front.program if front else "")


def _front(windows: Iterable[_Window], nodes: Iterable[_DrawnObject]) -> _Window | None:
    """The active window; if several are active, a modal one; if none is, the window of an open menu."""
    active = [window for window in windows if window.active and window.role != "window"]
    opened = (node.window for node in nodes if node.role == "menu" and _is_open(node.xml))
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


def _is_inner(node: _DrawnObject, nodes: Iterable[_DrawnObject]) -> bool:
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


def _numbered(elements: Iterable[UIElement]) -> Iterator[UIElement]:
    """Add a number to the id of the second and later elements with the same id."""
    seen: dict[str, int] = {}
    for element in elements:
        count = seen[element.element_id] = seen.get(element.element_id, 0) + 1
        yield element if count == 1 else element._replace(element_id=f"{element.element_id}#{count}")


def _states(xml: ElementTree.Element, role: str) -> tuple[str, ...]:
    disabled = not (_has(xml, "sensitive") or _has(xml, "enabled"))
    says = {
        "clickable": (role in _PRESSABLE or role == "cell") and not disabled,
        "checked": _has(xml, "checked") or _has(xml, "pressed"),
        "selected": _has(xml, "selected"),
        "focused": _has(xml, "focused"),
        "editable": role in ("text_field", "cell") and _has(xml, "editable"),
        "disabled": disabled and role in _PRESSABLE,
        "password": xml.tag == "password-text",
    }
    return tuple(name for name, holds in says.items() if holds)


def _window(xml: ElementTree.Element, program: str, bounds: Box) -> _Window:
    title = xml.get("name", "").strip()
    return _Window(title, xml.tag, bounds, program, _has(xml, "active"), _has(xml, "modal"))


def _has(xml: ElementTree.Element, state: str) -> bool:
    return xml.get(f"{STATE}{state}") == "true"


def _is_open(menu: ElementTree.Element) -> bool:
    return _has(menu, "selected") or _has(menu, "focused")


def _own_text(xml: ElementTree.Element) -> str:
    return " ".join((xml.get("name") or xml.text or "").split())


def _text_below(xml: ElementTree.Element) -> str:
    """The first label in a row, or else its first text."""
    texts = map(_own_text, (*xml.iter("label"), *xml.iter()))
    return next((text for text in texts if text), "")


def _bounds(xml: ElementTree.Element, view: Box) -> Box | None:
    """The visible part of an element."""
    corner = _PAIR.fullmatch(xml.get(f"{COMPONENT}screencoord", ""))
    size = _PAIR.fullmatch(xml.get(f"{COMPONENT}size", ""))
    if corner is None or size is None:
        return None
    left, top = int(corner[1]), int(corner[2])
    right, bottom = left + int(size[1]), top + int(size[2])
    return Box(max(left, view.left), max(top, view.top), min(right, view.right), min(bottom, view.bottom))
