"""Maps Android's widget classes to the roles of `UIElement`."""

from __future__ import annotations

from typing import NamedTuple

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
