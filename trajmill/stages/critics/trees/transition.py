"""Compares two screens; captions, the step critic and descriptions for guidance use the result."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.stages.critics.trees.screen_state import Control, ScreenState


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
