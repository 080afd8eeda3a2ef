"""What a press has opened, told from the trees before and after it."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.tables.pathway import EndKind, Evidence
from trajmill.stages.queries.pathways.elements import Key, Look, plain_name

_CHOICES = frozenset({"menu", "menu_item"})
_MARKS = "*• "
"""What title bars put beside the name of a changed document."""
_MOST_EVIDENCE = 4
_GONE = 0.5
"""Share of what could be pressed before that is gone when another page has come."""


class Outcome(NamedTuple):
    """What there is after a press that was not there before."""

    kind: EndKind
    name: str
    shows: tuple[Evidence, ...]


def outcome(pressed: Key, before: Look, after: Look) -> Outcome | None:
    """What a press on an element has opened; None if nothing that one can go on from.

    A title that only got a mark, such as the star of a changed document, names no other page.
    """
    new = [key for key in after.elements if key not in before.elements]
    window = _new_window(before, after, new)
    if window is not None:
        return Outcome(EndKind.DIALOG, window.text, (window,))
    selected = _selected(pressed, after)
    if pressed.role == "tab" and selected:
        return Outcome(
            EndKind.TAB, plain_name(pressed.text), (Evidence(role="tab", text=pressed.text, state="selected"),)
        )
    choices = [key for key in new if key.role in _CHOICES and key.text]
    if choices:
        shown = tuple(Evidence(role=key.role, text=key.text, state="") for key in choices[:_MOST_EVIDENCE])
        return Outcome(EndKind.MENU, plain_name(pressed.text), shown)
    if after.title and after.title.strip(_MARKS) != before.title.strip(_MARKS):
        return Outcome(EndKind.PAGE, after.title, (_titled(after),))
    return _other_page(pressed, before, after, new)


def entry(key: Key) -> Outcome:
    """The end of a pathway that leads to an entry which is only seen, not pressed."""
    return Outcome(EndKind.MENU_ITEM, plain_name(key.text), (Evidence(role=key.role, text=key.text, state=""),))


def _new_window(before: Look, after: Look, new: list[Key]) -> Evidence | None:
    """What names a new window: a dialog in the tree, or a title bar with another title at another place."""
    dialog = next((key for key in new if key.role == "dialog" and key.text), None)
    if dialog is not None:
        return Evidence(role="dialog", text=dialog.text, state="")
    moved = _title_height(after) != _title_height(before)
    return _titled(after) if moved and after.title and after.title != before.title else None


def _titled(look: Look) -> Evidence:
    return Evidence(role="heading", text=look.title, state="title")


def _title_height(look: Look) -> int | None:
    """Where the title bar is; one that only became narrower, for a button beside it, is no other window's."""
    return next((e.bounds.top for e in look.observation.elements or () if "title" in e.states), None)


def _selected(pressed: Key, after: Look) -> bool:
    element = after.elements.get(pressed)
    return element is not None and "selected" in element.states


def _other_page(pressed: Key, before: Look, after: Look, new: list[Key]) -> Outcome | None:
    """A page that has no title of its own: most of what was there has gone, and something else has come."""
    kept = [key for key in before.elements if key in after.elements]
    named = [key for key in new if key.text]
    if not named or len(kept) > len(before.elements) * _GONE:
        return None
    headings = [key for key in named if key.role == "heading"]
    shown = tuple(Evidence(role=key.role, text=key.text, state="") for key in (headings or named)[:_MOST_EVIDENCE])
    return Outcome(EndKind.PAGE, headings[0].text if headings else plain_name(pressed.text), shown)
