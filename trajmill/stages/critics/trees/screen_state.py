"""Reads the state of a screen from its accessibility tree, and compares two screens."""

from __future__ import annotations

import re
from typing import NamedTuple

from trajmill.schemas.observation import UIElement

ON, OFF = "on", "off"
"""The values of a switch or a checkbox."""


class Control(NamedTuple):
    """A control that a user can set, and its value."""

    key: str
    """Identifies it among the controls of its page; does not depend on its value."""
    kind: str
    """`choice`, `toggle`, `stepper`, `field` or `search`."""
    label: str
    """Its visible name: the group of radio buttons, the label of a switch, the hint of a field."""
    value: str
    """The selected option, `on` or `off`, the number, or the text."""
    options: tuple[str, ...] = ()
    """The options of a choice that are visible on this screen."""


class ScreenState(NamedTuple):
    """The state of one screen."""

    screen_id: str
    title: str
    page: str
    """`app.screen` if the platform names its elements so, else the title."""
    controls: dict[str, Control]
    """The visible controls, by `Control.key`."""
    values: tuple[str, ...]
    """Texts that are marked as data, in reading order."""
    items: tuple[tuple[str, str], ...]
    """Text and note of the list items, in reading order."""
    texts: frozenset[str]
    """Every visible text, in lower case."""
    is_form: bool
    """Whether it has a field and a button to submit it; until then, its values are a draft."""
    elements: tuple[UIElement, ...]


WAYS_BACK = frozenset({"Back", "Close", "Cancel"})
"""Labels of the buttons that lead back."""


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
    """The page of a tree: the part before `/` of the first element id that has a `/`, else the title."""
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
    """The kind of control that an element belongs to; empty for none."""
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
    """Whether it belongs to the desktop and not to the page."""
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
    """The number of a stepper, from the element that has the stepper's label and a whole number."""
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


class ControlChange(NamedTuple):
    """A control whose value has changed in a step."""

    control: Control
    """The control after the step."""
    old: str
    """Its value before the step."""


class Transition(NamedTuple):
    """The visible outcome of one step."""

    before: ScreenState
    after: ScreenState
    same: bool
    """Nothing visible has changed."""
    opened: bool
    """Another page, or the same page with another title, is shown."""
    changes: tuple[ControlChange, ...]
    """The controls whose values have changed; empty if another page was opened."""
    appeared: tuple[str, ...]
    """Data texts that are new."""
    vanished: tuple[str, ...]
    """Data texts that are gone although the page is the same."""
    items_changed: bool
    """On one page, list items appeared, disappeared or changed, and not by scrolling."""
    keyboard: bool
    """The on-screen keyboard is up after the step."""


def compare(before: ScreenState, after: ScreenState) -> Transition:
    """Compare two screens by their trees."""
    same = before.screen_id == after.screen_id
    opened = not same and (before.page, before.title) != (after.page, after.title)
    changes = () if same or before.page != after.page else _changes(before, after)
    return Transition(
        before=before,
        after=after,
        same=same,
        opened=opened,
        changes=changes,
        appeared=() if same else _more(after.values, before.values),
        vanished=() if same or opened or _menu_is_open(after) else _more(before.values, after.values),
        items_changed=not same and not opened and _items_changed(before, after),
        keyboard=any(element.role == "keyboard" for element in after.elements),
    )


def _more(texts: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """The texts that `others` does not have, or has less often, in order."""
    if texts == others:
        return ()
    left = list(others)
    more = []
    for text in texts:
        if text in left:
            left.remove(text)
        else:
            more.append(text)
    return tuple(more)


def _changes(before: ScreenState, after: ScreenState) -> tuple[ControlChange, ...]:
    found = []
    for key, control in after.controls.items():
        old = before.controls.get(key)
        if old is not None and old.value != control.value and _both_known(old, control):
            found.append(ControlChange(control, old.value))
    return tuple(found)


def _both_known(old: Control, new: Control) -> bool:
    """False for a choice whose selected option was only scrolled into or out of view."""
    return old.kind != "choice" or (new.value != "" and (old.value != "" or old.options == new.options))


def _items_changed(before: ScreenState, after: ScreenState) -> bool:
    """Whether the visible items differ in another way than by scrolling one list.

    Two views of one list agree where they overlap: scrolling keeps text and order of the shared items.
    """
    if before.items == after.items or _menu_is_open(before) or _menu_is_open(after):
        return False
    notes = dict(before.items)
    if any(text in notes and notes[text] != note for text, note in after.items):
        return True
    if _lists(before) != _lists(after):
        return False
    return not _can_scroll(before) and not _can_scroll(after)


def _menu_is_open(state: ScreenState) -> bool:
    """Whether a menu covers the page."""
    return any(element.role == "menu_item" for element in state.elements)


def _can_scroll(state: ScreenState) -> bool:
    return any("scrollable_down" in e.states or "scrollable_up" in e.states for e in state.elements)


def _lists(state: ScreenState) -> bool:
    """Whether a search filters the items; they then appear and disappear by themselves."""
    return any(e.role == "search_field" and e.value for e in state.elements)
