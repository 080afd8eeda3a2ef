"""Identifies elements by role and text, and states of a program by the elements that can be pressed."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import content_id
from trajmill.stages.environments.screen_goal import targets

_OPENS_DIALOG = ("...", "…")


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
    title = next((element.text for element in observation.elements or () if "title" in element.states), "")
    pressable = [
        (*key, "disabled" in element.states, "checked" in element.states, _in_front(element))
        for key, element in elements.items()
        if element.clickable or "disabled" in element.states
    ]
    return ProgramState(observation, title, elements, content_id("state", title, sorted(pressable)))


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
