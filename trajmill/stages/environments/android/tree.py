"""Reads uiautomator's dump of a window as accessibility elements.

A row that reacts to a press is one element, as a person sees it. Its first text is the element's text, its other texts
are the element's value, and a switch or check box in it that cannot be pressed by itself gives the role and the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.etree import ElementTree

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement

_ROLES = {
    "Button": "button",
    "ImageButton": "button",
    "MaterialButton": "button",
    "FloatingActionButton": "button",
    "ActionMenuItemView": "button",
    "CheckBox": "checkbox",
    "CheckedTextView": "checkbox",
    "Switch": "switch",
    "SwitchCompat": "switch",
    "ToggleButton": "switch",
    "RadioButton": "radio",
    "EditText": "text_field",
    "AutoCompleteTextView": "text_field",
    "MultiAutoCompleteTextView": "text_field",
    "SearchAutoComplete": "search_field",
    "SearchView": "search_field",
    "Spinner": "menu",
    "SeekBar": "slider",
    "RatingBar": "slider",
    "ProgressBar": "progress",
    "ImageView": "image",
    "Image": "image",
    "TextView": "text",
    "Tab": "tab",
    "TabView": "tab",
}
_LISTS = ("ListView", "RecyclerView", "GridView", "ExpandableListView")
GROUPS = ("RadioGroup", "NumberPicker")
"""Widgets that only group buttons; each button has the group's label as its value."""
_FIELDS = ("text_field", "search_field")
_BOUNDS = re.compile(r"\[(-?\d+),(-?\d+)\]\[(-?\d+),(-?\d+)\]")
_TITLES = ("action_bar_title", "toolbar_title", "title")
_FLAGS = ("checked", "selected", "focused", "password")


class Surroundings(NamedTuple):
    """The facts about a node that follow from the nodes around it."""

    listed: bool = False
    """Whether it is inside a list or another scrolling widget."""
    tabs: bool = False
    """Whether it is inside a bar of tabs."""
    group: str = ""
    """The label of the radio group around it."""
    stepper: str = ""
    """The label of the number picker around it."""
    launcher: bool = False
    """Whether it is inside the home app."""


def class_name(qualified: str) -> str:
    """The last part of a class's name, e.g. `Button` of `android.widget.Button`."""
    return qualified.replace("$", ".").rpartition(".")[2]


def below(surroundings: Surroundings, widget: str, label: str, scrolls: bool) -> Surroundings:
    """The surroundings of the nodes inside a widget."""
    if scrolls or widget in _LISTS:
        surroundings = surroundings._replace(listed=True)
    if widget in ("TabWidget", "TabLayout"):
        surroundings = surroundings._replace(tabs=True)
    if widget == "RadioGroup":
        surroundings = surroundings._replace(group=label)
    if widget == "NumberPicker":
        surroundings = surroundings._replace(stepper=label or "number")
    return surroundings


def role_of(widget: str, resource: str, clickable: bool, around: Surroundings) -> str:
    """The role of a widget.

    Args:
        widget: its class without the package.
        resource: its resource id.
        clickable: whether a press on it has an effect.
        around: its surroundings.
    """
    role = _ROLES.get(widget, "")
    if role == "button" and around.stepper:
        return "stepper_button"
    if role in _FIELDS:
        return "search_field" if "search" in resource.rpartition("/")[2].casefold() else role
    if not clickable or role not in ("", "text", "image"):
        return role or "text"
    if around.launcher:
        return "icon"
    if around.tabs:
        return "tab"
    if role:
        return "button"
    return "list_item" if around.listed else "button"


def is_field(role: str) -> bool:
    """Whether text can be typed into it."""
    return role in _FIELDS


def is_checkable(role: str) -> bool:
    """Whether it can be on or off."""
    return role in ("checkbox", "switch", "radio")


class ScreenContext(NamedTuple):
    """The facts about a screen from other sources than the dump."""

    size: Size
    app: str
    """The title if the window shows none."""
    launcher: str
    """Package of the home app."""
    keyboard: Box | None
    """The area of the on-screen keyboard; None while it is hidden."""


def read_tree(xml: str, context: ScreenContext) -> tuple[UIElement, ...] | None:
    """The elements of a dump without those that the keyboard covers; the first is the title.

    uiautomator does not say in which directions a list can be scrolled, so each list has both scroll states.

    Returns:
        None if `xml` is not a dump.
    """
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError:
        return None
    if root.tag != "hierarchy":
        return None
    found = list(_below(root, Surroundings(), context))
    if context.keyboard is not None:
        covered = context.keyboard
        found = [each for each in found if not covered.contains(*each.element.bounds.center)]
    title = next((each for each in found if each.may_be_title), None)
    rest = [each.element for each in found if each is not title]
    head = title.element if title else UIElement("text", context.app, Box(0, 0, context.size.width, 1))
    elements = [head._replace(role="heading", states=("title",)), *rest]
    if context.keyboard is not None:
        elements.append(UIElement("keyboard", "", context.keyboard, (), "", "keyboard"))
    return tuple(elements)


class _Found(NamedTuple):
    element: UIElement
    may_be_title: bool


def _below(node: ElementTree.Element, around: Surroundings, context: ScreenContext) -> Iterator[_Found]:
    for child in node:
        yield from _node(child, around, context)


def _node(node: ElementTree.Element, around: Surroundings, context: ScreenContext) -> Iterator[_Found]:
    if node.get("package"):
        around = around._replace(launcher=node.get("package") == context.launcher)
    inside = below(around, _widget(node), node.get("content-desc", ""), _flag(node, "scrollable"))
    box = _box(node, context.size)
    if box.area and _is_row(node):
        yield _Found(_row(node, box, around), False)
        for child in node.iter("node"):
            if child is not node and _reacts(child):
                yield from _node(child, inside, context)
        return
    if box.area and _flag(node, "scrollable"):
        states = ("scrollable_down", "scrollable_up")
        region = UIElement("list", node.get("content-desc", ""), box, states, "", node.get("resource-id", ""))
        yield _Found(region, False)
    elif box.area and _is_element(node):
        element = _element(node, box, around)
        named = node.get("resource-id", "").rpartition("/")[2] in _TITLES
        yield _Found(element, named and element.role == "text" and not around.listed)
    yield from _below(node, inside, context)


def _is_element(node: ElementTree.Element) -> bool:
    """Whether it is no container and no group; members of a group have its label as their value."""
    if _widget(node) in GROUPS:
        return False
    return bool(_text(node)) or _reacts(node) or is_field(_role(node, Surroundings()))


def _element(node: ElementTree.Element, box: Box, around: Surroundings) -> UIElement:
    role = _role(node, around)
    text, value = _text(node), ""
    if is_field(role):
        text, value = node.get("hint", "") or node.get("content-desc", ""), node.get("text", "")
    elif role == "radio":
        value = around.group
    elif role == "stepper_button":
        value = around.stepper
    return UIElement(role, text, box, _states(node, role, [node]), value, node.get("resource-id", ""))


def _row(node: ElementTree.Element, box: Box, around: Surroundings) -> UIElement:
    parts = [child for child in _own_parts(node) if child is not node]
    texts = [text for text in map(_text, parts) if text] or [_text(node)]
    marks = [child for child in parts if is_checkable(_role(child, Surroundings()))]
    role = _role(marks[0], around) if len(marks) == 1 else _role(node, around)
    states = _states(node, role, [node, *marks] if len(marks) == 1 else [node])
    return UIElement(role, texts[0], box, states, ", ".join(texts[1:]), node.get("resource-id", ""))


def _own_parts(node: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """The nodes of a row, without the nodes that react to presses by themselves and all inside them."""
    yield node
    for child in node:
        if not _reacts(child):
            yield from _own_parts(child)


def _is_row(node: ElementTree.Element) -> bool:
    return _flag(node, "clickable") and not _flag(node, "scrollable") and len(node) > 0 and not node.get("text")


def _reacts(node: ElementTree.Element) -> bool:
    return any(_flag(node, name) for name in ("clickable", "long-clickable", "scrollable"))


def _role(node: ElementTree.Element, around: Surroundings) -> str:
    return role_of(_widget(node), node.get("resource-id", ""), _flag(node, "clickable"), around)


def _states(node: ElementTree.Element, role: str, sources: Iterable[ElementTree.Element]) -> tuple[str, ...]:
    if not _flag(node, "enabled", "true"):
        return ("disabled",)
    sources = list(sources)
    states = ["clickable"] if _flag(node, "clickable") else []
    states += [name for name in _FLAGS if any(_flag(source, name) for source in sources)]
    return (*states, "editable") if is_field(role) else tuple(states)


def _text(node: ElementTree.Element) -> str:
    return " ".join((node.get("text") or node.get("content-desc") or "").split())


def _widget(node: ElementTree.Element) -> str:
    return class_name(node.get("class", ""))


def _flag(node: ElementTree.Element, name: str, default: str = "false") -> bool:
    return node.get(name, default) == "true"


def _box(node: ElementTree.Element, size: Size) -> Box:
    """The visible part of a node; uiautomator also gives bounds beyond the screen's edges."""
    match = _BOUNDS.fullmatch(node.get("bounds", ""))
    if match is None:
        return Box(0, 0, 0, 0)
    left, top, right, bottom = map(int, match.groups())
    return Box(max(left, 0), max(top, 0), min(right, size.width), min(bottom, size.height))
