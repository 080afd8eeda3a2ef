"""Elements by what they are, not by where they are; states of a program by what can be pressed in them."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import content_id
from trajmill.stages.agents.element_walk import targets

_OPENS_DIALOG = ("...", "…")


class Key(NamedTuple):
    """What identifies an element in a state of a program."""

    role: str
    text: str
    target: str
    """As in `PathwayStep.target`; it tells apart what has the same name in two menus."""


class Look(NamedTuple):
    """A state of a program, taken apart."""

    observation: Observation
    title: str
    """Of the window or page in front."""
    elements: dict[Key, UIElement]
    state: str
    """The tree's hash: of the title and what can be pressed, with what is disabled or checked, and the tab in front;
    places, values, focus and highlighting play no part, so that a state is known again when one comes back to it."""

    @property
    def alive(self) -> bool:
        """Whether there is anything to read or press: a program that has ended leaves nothing."""
        return any(key.text for key in self.elements)


def look_at(observation: Observation) -> Look:
    """Take an observation apart; one without a tree has no elements."""
    found = {Key(e.role, e.text, target): e for target, e in targets(observation.elements or ()).items()}
    elements = {key: element for key, element in found.items() if "title" not in element.states}
    title = next((element.text for element in observation.elements or () if "title" in element.states), "")
    pressable = [
        (*key, "disabled" in element.states, "checked" in element.states, _in_front(element))
        for key, element in elements.items()
        if element.clickable or "disabled" in element.states
    ]
    return Look(observation, title, elements, content_id("state", title, sorted(pressable)))


def _in_front(element: UIElement) -> bool:
    return element.role == "tab" and "selected" in element.states


def promises_dialog(text: str) -> bool:
    """Whether a name ends in an ellipsis, by which programs announce a dialog."""
    return text.rstrip().endswith(_OPENS_DIALOG)


def plain_name(text: str) -> str:
    """A name as people say it: without ellipsis, colon and the mark of an access key."""
    text = " ".join(text.replace("_", "").split())
    for ending in _OPENS_DIALOG:
        text = text.removesuffix(ending)
    return text.rstrip(" :")
