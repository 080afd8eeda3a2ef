"""The simulator's accessibility elements as uiautomator dumps an app's window."""

from collections.abc import Sequence
from xml.etree import ElementTree

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement

_CLASSES = {
    "button": "android.widget.Button",
    "stepper_button": "android.widget.Button",
    "checkbox": "android.widget.CheckBox",
    "switch": "android.widget.Switch",
    "radio": "android.widget.RadioButton",
    "text_field": "android.widget.EditText",
    "search_field": "android.widget.SearchView$SearchAutoComplete",
    "list_item": "android.widget.LinearLayout",
    "list": "androidx.recyclerview.widget.RecyclerView",
    "dialog": "android.widget.FrameLayout",
}
_LABELLED = {"radio": "android.widget.RadioGroup", "stepper_button": "android.widget.NumberPicker"}
_LIST = "androidx.recyclerview.widget.RecyclerView"


def dump(elements: Sequence[UIElement], package: str, screen: Box, rotation: int) -> str:
    """The XML of a window; the keyboard is another window and is left out."""
    root = ElementTree.Element("hierarchy", rotation=str(rotation))
    frame = _node(root, "android.widget.FrameLayout", package, screen)
    region, inside = frame, Box(0, 0, 0, 0)
    for element in elements:
        if element.role == "keyboard":
            continue
        if element.role == "list":
            region, inside = (
                _node(frame, _LIST, package, element.bounds, element.element_id, scrollable=True),
                (element.bounds),
            )
        elif inside.contains(*element.bounds.center):
            _add(region, element, package)
        elif element.role == "list_item":
            _add(_node(frame, _LIST, package, element.bounds), element, package)
        else:
            _add(frame, element, package)
    return "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>" + ElementTree.tostring(root, "unicode")


def _add(parent: ElementTree.Element, element: UIElement, package: str) -> None:
    role, box = element.role, element.bounds
    if role in _LABELLED:
        parent = _node(parent, _LABELLED[role], package, box)
        parent.set("content-desc", element.value)
    kind = _CLASSES.get(role, "android.widget.TextView")
    node = _node(parent, kind, package, box, element.element_id)
    node.set("clickable", _flag(element.clickable))
    node.set("enabled", _flag("disabled" not in element.states))
    for name in ("checked", "focused"):
        node.set(name, _flag(name in element.states))
    if "editable" in element.states:
        node.set("text", element.value)
        node.set("hint", element.text)
    elif role == "list_item":
        for text in filter(None, (element.text, element.value)):
            _node(node, "android.widget.TextView", package, box).set("text", text)
    elif role != "dialog":
        node.set("text", element.text)
        if role == "text" and element.value:
            _node(parent, "android.widget.TextView", package, box).set("text", element.value)


def _node(
    parent: ElementTree.Element, kind: str, package: str, box: Box, resource: str = "", scrollable: bool = False
) -> ElementTree.Element:
    flags = dict.fromkeys(("checkable", "checked", "clickable", "focusable", "focused", "long-clickable"), "false")
    return ElementTree.SubElement(
        parent,
        "node",
        {
            "index": str(len(parent)),
            "text": "",
            "resource-id": resource,
            "class": kind,
            "package": package,
            "content-desc": "",
            **flags,
            "enabled": "true",
            "scrollable": _flag(scrollable),
            "password": "false",
            "selected": "false",
            "bounds": f"[{box.left},{box.top}][{box.right},{box.bottom}]",
        },
    )


def _flag(value: bool) -> str:
    return "true" if value else "false"
