"""Reads the state of a screen from its accessibility tree, and compares two screens."""

from __future__ import annotations

import re
from typing import NamedTuple

from trajmill.schemas.observation import UIElement

ON, OFF = "on", "off"
"""The values of a switch or a checkbox."""
WAYS_BACK = frozenset({"Back", "Close", "Cancel"})
_KINDS = {
    "radio": "choice",
    "switch": "toggle",
    "checkbox": "toggle",
    "stepper_button": "stepper",
    "text_field": "field",
    "search_field": "search",
}


class Control(NamedTuple):
    key: str
    """Identifies it among the controls of its page; independent of its value."""
    kind: str
    """`choice`, `toggle`, `stepper`, `field` or `search`."""
    label: str
    """Its visible name: the group of radio buttons, the label of a switch, the hint of a field."""
    value: str
    """The selected option, `on` or `off`, the number, or the text."""
    options: tuple[str, ...] = ()


class ScreenState(NamedTuple):
    screen_id: str
    title: str
    page: str
    """`app.screen` if the platform names its elements so, else the title."""
    controls: dict[str, Control]
    """By `Control.key`."""
    values: tuple[str, ...]
    items: tuple[tuple[str, str], ...]
    """Text and note of the list items, in reading order."""
    texts: frozenset[str]
    """Every visible text, in lower case."""
    is_form: bool
    """Whether it has a field and a button to submit it; until then, its values are a draft."""
    elements: tuple[UIElement, ...]

    @property
    def scrolls(self) -> bool:
        return any("scrollable_down" in each.states or "scrollable_up" in each.states for each in self.elements)

    @property
    def menu_is_open(self) -> bool:
        return any(element.role == "menu_item" for element in self.elements)


def read_screen(screen_id: str, elements: tuple[UIElement, ...]) -> ScreenState:
    submits = any(
        e.role == "button" and e.text not in WAYS_BACK and not e.element_id.startswith("taskbar/") for e in elements
    )
    return ScreenState(
        screen_id=screen_id,
        title=_title(elements),
        page=page_of(elements),
        controls=_controls(elements),
        values=tuple(e.text for e in elements if e.role == "value"),
        items=tuple((e.text, e.value) for e in elements if e.role == "list_item"),
        texts=frozenset(e.text.casefold() for e in elements if e.text),
        is_form=submits and any(e.role == "text_field" for e in elements),
        elements=elements,
    )


def page_of(elements: tuple[UIElement, ...]) -> str:
    """Return the part before `/` of the first element id that has a `/`, else the title."""
    for element in elements:
        page, slash, _ = element.element_id.partition("/")
        if slash and page:
            return page
    return _title(elements)


def _title(elements: tuple[UIElement, ...]) -> str:
    return elements[0].text if elements and elements[0].role == "heading" else ""


def control_kind(element: UIElement) -> str:
    return _KINDS.get(element.role, "")


def _controls(elements: tuple[UIElement, ...]) -> dict[str, Control]:
    controls: dict[str, Control] = {}
    for element in elements:
        kind = control_kind(element)
        if not kind:
            continue
        _, slash, name = element.element_id.partition("/")
        if kind in ("choice", "stepper"):  # several elements make one control, whose label is their value
            name, label = name.partition("/")[0] if slash else element.value, element.value
        else:
            name, label = name if slash else element.text, element.text
        key = f"{kind}:{name}"
        marked = "checked" in element.states
        if kind == "choice":
            known = controls.get(key, Control(key, kind, label, ""))
            value = element.text if marked or "selected" in element.states else known.value
            controls[key] = known._replace(value=value, options=(*known.options, element.text))
        elif kind != "stepper":
            value = (ON if marked else OFF) if kind == "toggle" else element.value
            controls[key] = Control(key, kind, label, value)
        elif key not in controls and (number := _number_of(label, elements)) is not None:
            controls[key] = Control(key, kind, label, number)
    return controls


def _number_of(label: str, elements: tuple[UIElement, ...]) -> str | None:
    pattern = re.compile(rf"(?:{re.escape(label)}\W*)?(-?\d+)")
    for element in elements:
        named = label in (element.text, element.value)
        if element.role != "stepper_button" and (named or element.text.startswith(label)):
            match = pattern.fullmatch(element.text) or (pattern.fullmatch(element.value) if named else None)
            if match:
                return match[1]
    return None


class ControlChange(NamedTuple):
    control: Control
    old: str


class Transition(NamedTuple):
    before: ScreenState
    after: ScreenState
    same: bool
    opened: bool
    """Another page, or the same page with another title, is shown."""
    changes: tuple[ControlChange, ...]
    """The controls whose values have changed; empty if another page was opened."""
    appeared: tuple[str, ...]
    vanished: tuple[str, ...]
    """Data texts that are gone although the page is the same."""
    items_changed: bool
    """On one page, list items appeared, disappeared or changed, and not by scrolling."""
    keyboard: bool


def compare(before: ScreenState, after: ScreenState) -> Transition:
    same = before.screen_id == after.screen_id
    opened = not same and (before.page, before.title) != (after.page, after.title)
    changes = []
    for key, new in after.controls.items() if not same and before.page == after.page else ():
        old = before.controls.get(key)
        # The selected option of a choice may only have been scrolled into or out of view.
        scrolled = new.kind == "choice" and not (new.value and old and (old.value or old.options == new.options))
        if old is not None and old.value != new.value and not scrolled:
            changes.append(ControlChange(new, old.value))
    items_changed, notes = False, dict(before.items)
    if before.items != after.items and not (same or opened or before.menu_is_open or after.menu_is_open):
        # The items differ other than by scrolling or filtering one list.
        filtered = [any(e.role == "search_field" and e.value for e in state.elements) for state in (before, after)]
        items_changed = filtered[0] == filtered[1] and not before.scrolls and not after.scrolls
        items_changed |= any(text in notes and notes[text] != note for text, note in after.items)
    return Transition(
        before=before,
        after=after,
        same=same,
        opened=opened,
        changes=tuple(changes),
        appeared=() if same else _more(after.values, before.values),
        vanished=() if same or opened or after.menu_is_open else _more(before.values, after.values),
        items_changed=items_changed,
        keyboard=any(element.role == "keyboard" for element in after.elements),
    )


def _more(texts: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts that `others` has less often or not at all, in order."""
    left, more = list(others), []
    for text in texts:
        if text in left:
            left.remove(text)
        else:
            more.append(text)
    return tuple(more)
