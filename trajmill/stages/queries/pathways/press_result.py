"""Finds what a press opened, by comparing the trees before and after it."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.tables.pathway import EndKind, Evidence
from trajmill.stages.queries.pathways.elements import ElementKey, ProgramState, plain_name

_CHOICES = frozenset({"menu", "menu_item"})
_MARKS = "*• "
"""Characters that title bars add to the name of a changed document."""
_MOST_EVIDENCE = 4
_LARGEST_SHARE_KEPT = 0.5
"""Largest share of the old elements that a new page may still show."""


class PressResult(NamedTuple):
    """What a press opened."""

    kind: EndKind
    name: str
    shows: tuple[Evidence, ...]


def press_result(pressed: ElementKey, before: ProgramState, after: ProgramState) -> PressResult | None:
    """What a press on an element opened; None if it opened nothing.

    A mark in a title, such as the star of a changed document, does not make another page.
    """
    new = [key for key in after.elements if key not in before.elements]
    window = _new_window(before, after, new)
    if window is not None:
        return PressResult(EndKind.DIALOG, window.text, (window,))
    selected = _selected(pressed, after)
    if pressed.role == "tab" and selected:
        return PressResult(
            EndKind.TAB, plain_name(pressed.text), (Evidence(role="tab", text=pressed.text, state="selected"),)
        )
    choices = [key for key in new if key.role in _CHOICES and key.text]
    if choices:
        shown = tuple(Evidence(role=key.role, text=key.text, state="") for key in choices[:_MOST_EVIDENCE])
        return PressResult(EndKind.MENU, plain_name(pressed.text), shown)
    if after.title and after.title.strip(_MARKS) != before.title.strip(_MARKS):
        return PressResult(EndKind.PAGE, after.title, (_titled(after),))
    return _other_page(pressed, before, after, new)


def menu_entry(key: ElementKey) -> PressResult:
    """The end of a pathway at a menu entry that is not pressed."""
    return PressResult(EndKind.MENU_ITEM, plain_name(key.text), (Evidence(role=key.role, text=key.text, state=""),))


def _new_window(before: ProgramState, after: ProgramState, new: list[ElementKey]) -> Evidence | None:
    """The evidence of a new window: a dialog in the tree, or another title in a title bar at another place."""
    dialog = next((key for key in new if key.role == "dialog" and key.text), None)
    if dialog is not None:
        return Evidence(role="dialog", text=dialog.text, state="")
    moved = _title_height(after) != _title_height(before)
    return _titled(after) if moved and after.title and after.title != before.title else None


def _titled(state: ProgramState) -> Evidence:
    return Evidence(role="heading", text=state.title, state="title")


def _title_height(state: ProgramState) -> int | None:
    """Top of the title bar. The width is not compared: a button beside it may narrow it."""
    return next((e.bounds.top for e in state.observation.elements or () if "title" in e.states), None)


def _selected(pressed: ElementKey, after: ProgramState) -> bool:
    element = after.elements.get(pressed)
    return element is not None and "selected" in element.states


def _other_page(
    pressed: ElementKey, before: ProgramState, after: ProgramState, new: list[ElementKey]
) -> PressResult | None:
    """A new page without a title: most of the old elements are gone, and there are new ones."""
    kept = [key for key in before.elements if key in after.elements]
    named = [key for key in new if key.text]
    if not named or len(kept) > len(before.elements) * _LARGEST_SHARE_KEPT:
        return None
    headings = [key for key in named if key.role == "heading"]
    shown = tuple(Evidence(role=key.role, text=key.text, state="") for key in (headings or named)[:_MOST_EVIDENCE])
    return PressResult(EndKind.PAGE, headings[0].text if headings else plain_name(pressed.text), shown)
