"""Reads the accessibility trees of AndroidEnv (`AndroidAccessibilityForest`, android_env/proto/a11y) as elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.storable import storable
from trajmill.stages.importing.wire import EncodedMessage

_WINDOWS: Final = 1
_LAYER, _TREE = 4, 11
_NODES: Final = 1
_BOUNDS, _CLASS, _DESCRIPTION, _HINT, _TEXT, _ID = 2, 3, 4, 5, 7, 10
_CHECKED, _CLICKABLE, _EDITABLE, _ENABLED, _FOCUSED, _PASSWORD, _SCROLLABLE, _SELECTED, _VISIBLE = (
    *(13, 14, 15, 16, 18, 20, 21, 22, 23),
)
_STATES: Final = {
    _CLICKABLE: ("clickable",),
    _CHECKED: ("checked",),
    _SELECTED: ("selected",),
    _FOCUSED: ("focused",),
    _EDITABLE: ("editable",),
    _SCROLLABLE: ("scrollable_down", "scrollable_up"),
    _PASSWORD: ("password",),
}
_ROLES: Final = {
    "Button": "button",
    "ImageButton": "button",
    "EditText": "text_field",
    "CheckBox": "checkbox",
    "Switch": "switch",
    "RadioButton": "radio",
    "ImageView": "image",
    "TextView": "text",
}


def read_forest(data: bytes) -> tuple[UIElement, ...]:
    """The visible elements with a text or something to press, from the front window to the back.

    Raises:
        ValueError: the bytes are no forest.
    """
    windows = sorted(EncodedMessage(data).messages(_WINDOWS), key=lambda window: -window.number(_LAYER))
    return tuple(
        element
        for window in windows
        for tree in window.messages(_TREE)
        for node in tree.messages(_NODES)
        for element in _element(node)
    )


def _element(node: EncodedMessage) -> Iterator[UIElement]:
    said, typed = node.text(_DESCRIPTION), node.text(_TEXT)
    editable = bool(node.number(_EDITABLE))
    label = storable((said or node.text(_HINT)) if editable else (typed or said))
    states = [state for field, names in _STATES.items() if node.number(field) for state in names]
    if not node.number(_ENABLED):
        states.append("disabled")
    bounds = _box(node)
    if not node.number(_VISIBLE) or bounds.area == 0 or not (label or editable or "clickable" in states):
        return
    role = "text_field" if editable else _ROLES.get(node.text(_CLASS).rpartition(".")[2], "group")
    value = storable(typed) if editable else ""
    yield UIElement(role, label, bounds, tuple(states), value, storable(node.text(_ID)))


def _box(node: EncodedMessage) -> Box:
    for rect in node.messages(_BOUNDS):
        return Box(*(max(-(1 << 20), min(rect.number(side), 1 << 20)) for side in (1, 2, 3, 4)))
    return Box(0, 0, 0, 0)
