"""What one accessibility tree says: which page it is, how its controls stand, what it shows worth noting."""

from __future__ import annotations

import re
from typing import NamedTuple

from trajmill.schemas.observation import UIElement

ON, OFF = "on", "off"
"""How a switch or a checkbox stands."""


class Control(NamedTuple):
    """One thing a user can set, and how it stands."""

    key: str
    """Names it among the controls of its page, whatever it holds."""
    kind: str
    """choice, toggle, stepper, field or search."""
    label: str
    """Its visible name: the group of radio buttons, the words of a switch, the hint of a field."""
    value: str
    """The selected option, `on` or `off`, the number, or the text it holds."""
    options: tuple[str, ...] = ()
    """What a choice offers on this screen."""


class ScreenState(NamedTuple):
    """One screen, read."""

    screen_id: str
    title: str
    page: str
    """`app.screen` where the platform names its elements so, else the title."""
    controls: dict[str, Control]
    """By `Control.key`; a control that is scrolled away or covered is not here."""
    values: tuple[str, ...]
    """Texts marked as data worth noting, in reading order."""
    items: tuple[tuple[str, str], ...]
    """Text and note of the list items, in reading order."""
    texts: frozenset[str]
    """Every visible text, lower case."""
    is_form: bool
    """It has a field to fill in and a button to send it off with: what is set on it is a draft until then."""
    elements: tuple[UIElement, ...]


WAYS_BACK = frozenset({"Back", "Close", "Cancel"})
"""Words on the buttons that lead back."""


def read_screen(screen_id: str, elements: tuple[UIElement, ...]) -> ScreenState:
    """Read the tree of one screen; an empty tree gives an empty page."""
    return ScreenState(
        screen_id=screen_id,
        title=_title(elements),
        page=page_of(elements),
        controls=_controls(elements),
        values=tuple(e.text for e in elements if e.role == "value"),
        items=tuple((e.text, e.value) for e in elements if e.role == "list_item"),
        texts=frozenset(e.text.casefold() for e in elements if e.text),
        is_form=_is_form(elements),
        elements=elements,
    )


def page_of(elements: tuple[UIElement, ...]) -> str:
    """The page a tree belongs to: the part before `/` of the first element id that has one, else the title."""
    for element in elements:
        page, slash, _ = element.element_id.partition("/")
        if slash and page:
            return page
    return _title(elements)


def control_key(element: UIElement) -> str:
    """The key of the control that an element is a part of."""
    kind = _KINDS.get(element.role, "")
    _, slash, widget = element.element_id.partition("/")
    if slash:
        return f"{kind}:{widget.partition('/')[0] if kind in ('choice', 'stepper') else widget}"
    return f"{kind}:{element.value if kind in ('choice', 'stepper') else element.text}"


def control_kind(element: UIElement) -> str:
    """Which kind of control an element belongs to, empty for none."""
    return _KINDS.get(element.role, "")


_KINDS = {
    "radio": "choice",
    "switch": "toggle",
    "checkbox": "toggle",
    "stepper_button": "stepper",
    "text_field": "field",
    "search_field": "search",
}


def _is_form(elements: tuple[UIElement, ...]) -> bool:
    buttons = any(e.role == "button" and e.text not in WAYS_BACK and not _is_system(e) for e in elements)
    return buttons and any(e.role == "text_field" for e in elements)


def _is_system(element: UIElement) -> bool:
    """Whether it belongs to the desktop rather than to the page."""
    return element.element_id.startswith("taskbar/")


def _title(elements: tuple[UIElement, ...]) -> str:
    if elements and elements[0].role == "heading":
        return elements[0].text
    return ""


def _controls(elements: tuple[UIElement, ...]) -> dict[str, Control]:
    controls: dict[str, Control] = {}
    for element in elements:
        kind = control_kind(element)
        if not kind:
            continue
        key = control_key(element)
        if kind == "choice":
            _add_option(controls, key, element)
        elif kind == "stepper":
            if key not in controls:
                number = _number_of(element.value, elements)
                if number is not None:
                    controls[key] = Control(key, kind, element.value, number)
        elif kind == "toggle":
            controls[key] = Control(key, kind, element.text, ON if "checked" in element.states else OFF)
        else:
            controls[key] = Control(key, kind, element.text, element.value)
    return controls


def _add_option(controls: dict[str, Control], key: str, element: UIElement) -> None:
    so_far = controls.get(key, Control(key, "choice", element.value, ""))
    chosen = "selected" in element.states or "checked" in element.states
    controls[key] = so_far._replace(
        value=element.text if chosen else so_far.value, options=(*so_far.options, element.text)
    )


def _number_of(label: str, elements: tuple[UIElement, ...]) -> str | None:
    """The number a stepper stands at: in an element that carries the stepper's label and a whole number."""
    pattern = re.compile(rf"(?:{re.escape(label)}\W*)?(-?\d+)")
    for element in elements:
        if element.role != "stepper_button" and label in (element.text, element.value):
            match = pattern.fullmatch(element.text) or pattern.fullmatch(element.value)
            if match:
                return match[1]
        elif element.role != "stepper_button" and element.text.startswith(label):
            match = pattern.fullmatch(element.text)
            if match:
                return match[1]
    return None
