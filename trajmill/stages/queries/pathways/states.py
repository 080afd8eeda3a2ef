"""States of a program, read from its accessibility tree, and what a press opened."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.pathway import EndKind, Evidence
from trajmill.stages.environments.screen_goal import targets

_OPENS_DIALOG = ("...", "…")
_CHOICES = frozenset({"menu", "menu_item"})
_MARKS = "*• "
"""Characters that title bars add to the name of a changed document."""
_MOST_EVIDENCE = 4
_LARGEST_SHARE_KEPT = 0.5
"""Largest share of the old elements that a new page may still show."""


class ElementKey(NamedTuple):
    """What identifies an element in a state of a program."""

    role: str
    text: str
    target: str
    """As in `PathwayStep.target`; it distinguishes equal names in two menus."""


class ProgramState(NamedTuple):
    """A state of a program, read from its accessibility tree."""

    observation: Observation
    title: str
    """Title of the window or page in front."""
    title_top: int | None
    """Top of the title bar. The width is not compared: a button beside it may narrow it."""
    elements: dict[ElementKey, UIElement]
    state_id: str
    """Hash of the title and of the elements that can be pressed, with their disabled, checked and in-front states.
    Positions, values, focus and highlighting are left out, so that a state is recognised when the walk returns."""

    @property
    def alive(self) -> bool:
        """Whether an element has text: a program that has ended shows none."""
        return any(key.text for key in self.elements)


def program_state(observation: Observation) -> ProgramState:
    """Read the state from an observation; one without a tree has no elements."""
    found = {ElementKey(e.role, e.text, target): e for target, e in targets(observation.elements or ()).items()}
    elements = {key: element for key, element in found.items() if "title" not in element.states}
    bar = next((element for element in observation.elements or () if "title" in element.states), None)
    title = bar.text if bar else ""
    pressable = [
        (*key, "disabled" in e.states, "checked" in e.states, e.role == "tab" and "selected" in e.states)
        for key, e in elements.items()
        if e.clickable or "disabled" in e.states
    ]
    state_id = content_id("state", title, sorted(pressable))
    return ProgramState(observation, title, bar.bounds.top if bar else None, elements, state_id)


def promises_dialog(text: str) -> bool:
    """Whether a name ends in an ellipsis, by which programs announce a dialog."""
    return text.rstrip().endswith(_OPENS_DIALOG)


def plain_name(text: str) -> str:
    """Return a name without ellipsis, colon and the mark of an access key."""
    text = " ".join(text.replace("_", "").split())
    for ending in _OPENS_DIALOG:
        text = text.removesuffix(ending)
    return text.rstrip(" :")


class PressResult(NamedTuple):
    """What a press opened."""

    kind: EndKind
    name: str
    shows: tuple[Evidence, ...]


def press_result(pressed: ElementKey, before: ProgramState, after: ProgramState) -> PressResult | None:
    """Return what a press on an element opened; None if it opened nothing.

    A mark in a title, such as the star of a changed document, does not make another page.
    """
    new = [key for key in after.elements if key not in before.elements]
    titled = Evidence(role="heading", text=after.title, state="title")
    dialog = next((key for key in new if key.role == "dialog" and key.text), None)
    if dialog is not None:
        return PressResult(EndKind.DIALOG, dialog.text, _evidence([dialog]))
    # Another title in a title bar at another place is a new window.
    if after.title_top != before.title_top and after.title and after.title != before.title:
        return PressResult(EndKind.DIALOG, after.title, (titled,))
    element = after.elements.get(pressed)
    if pressed.role == "tab" and element is not None and "selected" in element.states:
        shown = Evidence(role="tab", text=pressed.text, state="selected")
        return PressResult(EndKind.TAB, plain_name(pressed.text), (shown,))
    choices = [key for key in new if key.role in _CHOICES and key.text]
    if choices:
        return PressResult(EndKind.MENU, plain_name(pressed.text), _evidence(choices))
    if after.title and after.title.strip(_MARKS) != before.title.strip(_MARKS):
        return PressResult(EndKind.PAGE, after.title, (titled,))
    # A new page without a title: most of the old elements are gone, and there are new ones.
    kept = [key for key in before.elements if key in after.elements]
    named = [key for key in new if key.text]
    if not named or len(kept) > len(before.elements) * _LARGEST_SHARE_KEPT:
        return None
    headings = [key for key in named if key.role == "heading"]
    return PressResult(
        EndKind.PAGE, headings[0].text if headings else plain_name(pressed.text), _evidence(headings or named)
    )


def menu_entry(key: ElementKey) -> PressResult:
    """Return the end of a pathway at a menu entry that is not pressed."""
    return PressResult(EndKind.MENU_ITEM, plain_name(key.text), _evidence([key]))


def _evidence(keys: list[ElementKey]) -> tuple[Evidence, ...]:
    return tuple(Evidence(role=key.role, text=key.text, state="") for key in keys[:_MOST_EVIDENCE])
