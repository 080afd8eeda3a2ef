"""What changed between two screens: the basis of captions, of the step critic and of guidance descriptions."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.stages.critics.trees.screen_state import Control, ScreenState


class ControlChange(NamedTuple):
    """A control that stands differently after a step."""

    control: Control
    """As it stands after the step."""
    old: str
    """How it stood before."""


class Transition(NamedTuple):
    """The visible outcome of one step."""

    before: ScreenState
    after: ScreenState
    same: bool
    """Nothing visible has changed."""
    opened: bool
    """Another page, or the same page with another title, is shown."""
    changes: tuple[ControlChange, ...]
    """Controls of one page that stand differently; empty when another page was opened."""
    appeared: tuple[str, ...]
    """Values worth noting that are new."""
    vanished: tuple[str, ...]
    """Values worth noting that are gone though the page is the same."""
    items_changed: bool
    """On one page, list items came, went or changed their words otherwise than by scrolling."""
    keyboard: bool
    """The on-screen keyboard is up after the step."""


def compare(before: ScreenState, after: ScreenState) -> Transition:
    """What changed from one screen to another, from their trees alone."""
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
    """The texts that `others` does not have, or not as often, in order."""
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
    """False for a choice whose selected option has only been scrolled in or out of view."""
    return old.kind != "choice" or (new.value != "" and (old.value != "" or old.options == new.options))


def _items_changed(before: ScreenState, after: ScreenState) -> bool:
    """Whether the items in sight differ in another way than a window moving over one list.

    Two windows of one list agree wherever they overlap, so that a scroll keeps each shared item's words and order.
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
    """Whether the items are narrowed by a search, in which case they come and go by themselves."""
    return any(e.role == "search_field" and e.value for e in state.elements)
