"""The simulator's accessibility elements as uiautomator dumps an app's window."""

from collections.abc import Sequence
from xml.etree import ElementTree

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import HOLDABLE, UIElement

_LIST, _TEXT = "androidx.recyclerview.widget.RecyclerView", "android.widget.TextView"
_CLASSES = {
    "button": "android.widget.Button",
    "stepper_button": "android.widget.Button",
    "checkbox": "android.widget.CheckBox",
    "switch": "android.widget.Switch",
    "radio": "android.widget.RadioButton",
    "text_field": "android.widget.EditText",
    "search_field": "android.widget.SearchView$SearchAutoComplete",
    "list_item": "android.widget.LinearLayout",
    "list": _LIST,
    "dialog": "android.widget.FrameLayout",
}
_LABELLED = {"radio": "android.widget.RadioGroup", "stepper_button": "android.widget.NumberPicker"}


def dump(elements: Sequence[UIElement], package: str, screen: Box, rotation: int) -> str:
    """The XML of a window; the keyboard is another window and is left out."""

    def add(parent: ElementTree.Element, kind: str, box: Box, **given: str | bool) -> ElementTree.Element:
        place = f"[{box.left},{box.top}][{box.right},{box.bottom}]"
        said = {"class": kind, "package": package, "bounds": place, "enabled": True, **given}
        written = {
            name.replace("_", "-"): str(value).lower() if isinstance(value, bool) else value
            for name, value in said.items()
        }
        return ElementTree.SubElement(parent, "node", written)

    root = ElementTree.Element("hierarchy", rotation=str(rotation))
    frame = add(root, "android.widget.FrameLayout", screen)
    region, inside = frame, Box(0, 0, 0, 0)
    for role, text, box, states, value, name in elements:
        if role == "keyboard":
            continue
        if role == "list":
            region, inside = add(frame, _LIST, box, resource_id=name, scrollable=True), box
            continue
        parent = region if inside.contains(*box.center) else frame
        if role == "list_item" and parent is frame:
            parent = add(frame, _LIST, box)
        if role in _LABELLED:
            parent = add(parent, _LABELLED[role], box, content_desc=value)
        node = add(
            parent,
            _CLASSES.get(role, _TEXT),
            box,
            resource_id=name,
            clickable="clickable" in states,
            long_clickable=HOLDABLE in states,
            enabled="disabled" not in states,
            checked="checked" in states,
            focused="focused" in states,
        )
        if "editable" in states:
            node.attrib.update(text=value, hint=text)
        elif role == "list_item":
            for part in filter(None, (text, value)):
                add(node, _TEXT, box, text=part)
        elif role != "dialog":
            node.set("text", text)
            if role == "text" and value:
                add(parent, _TEXT, box, text=value)
    return "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>" + ElementTree.tostring(root, "unicode")
