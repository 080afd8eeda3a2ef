"""Tracks what an agent has set, pressed and seen so far, from the accessibility trees of the screens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Slot
from trajmill.stages.critics.annotated.wording import holds, same_value, slots_on, wanted
from trajmill.stages.critics.trees.replay import SeenStep
from trajmill.stages.critics.trees.screen_state import Control, ScreenState


class PressedItem(NamedTuple):
    """A press on an element that is no control: an item, a tab, a button."""

    group: str
    """Its list, or its role if it is in none; items of one group are alternatives."""
    text: str
    name: str
    """The platform's name of the item; empty without one."""

    def answers(self, value: str) -> bool:
        """Whether it is the item with this value."""
        return same_value(self.text, value) or same_value(self.name, value)


class ControlState(NamedTuple):
    """A control as it was last seen, with its first value."""

    control: Control
    first: str

    @property
    def changed(self) -> bool:
        """Whether its value differs from the first one."""
        return self.control.value != self.first


@dataclass(slots=True)
class EpisodeState:
    """The state of one episode so far."""

    controls: dict[tuple[str, str], ControlState] = field(default_factory=dict)
    """The controls, by page and key."""
    picks: dict[str, list[PressedItem]] = field(default_factory=dict)
    """By page, the pressed items, and the other elements whose press had an effect, oldest first."""
    typed: dict[str, list[str]] = field(default_factory=dict)
    """By page, the texts that were typed into fields; search fields do not count."""
    shown: dict[str, set[str]] = field(default_factory=dict)
    """By page, the values that were shown as data."""
    forms: set[str] = field(default_factory=set)
    """Pages that are forms."""
    pages: list[str] = field(default_factory=list)
    """Pages in the order in which they were shown; a page that is shown again is listed again."""

    def enter(self, state: ScreenState) -> None:
        """Update the state with a screen."""
        if not self.pages or self.pages[-1] != state.page:
            self.pages.append(state.page)
        if state.is_form:
            self.forms.add(state.page)
        if state.values:
            self.shown.setdefault(state.page, set()).update(state.values)
        for key, control in state.controls.items():
            self._update_control((state.page, key), control)

    def observe(self, step: SeenStep) -> None:
        """Update the state with a step and the screen after it."""
        element = step.action.element
        if step.action.presses and element is not None and (element.role == "list_item" or not step.outcome.same):
            self.picks.setdefault(step.outcome.before.page, []).append(_pick(element))
        if step.action.kind == "type" and element is not None and element.role == "text_field":
            self.typed.setdefault(step.outcome.before.page, []).append(step.action.words)
        for change in step.outcome.changes:
            place = (step.outcome.before.page, change.control.key)
            self.controls.setdefault(place, ControlState(change.control, change.old))
        self.enter(step.outcome.after)

    def _update_control(self, place: tuple[str, str], control: Control) -> None:
        if control.kind == "choice" and not control.value:
            return
        known = self.controls.get(place)
        first = known.first if known is not None else control.value
        self.controls[place] = ControlState(control, first)

    def changed_controls(self) -> list[tuple[str, Control]]:
        """Page and control of each control whose value differs from its first one; search fields do not count."""
        return [
            (page, seen.control)
            for (page, _), seen in self.controls.items()
            if seen.changed and seen.control.kind != "search"
        ]

    def evidence(self, slot: Slot, slots: tuple[Slot, ...]) -> bool | None:
        """Whether a constraint is met on its page; None if the episode shows nothing about it.

        `slots` are all constraints of the task: a press that meets another one does not contradict this one.
        """
        own = slots_on(slot.page, slots)
        meant = [
            seen.control
            for (page, _), seen in self.controls.items()
            if page == slot.page and wanted(seen.control, own) == slot
        ]
        if meant:
            return any(holds(control, slot) for control in meant)
        return self._picked(slot, own)

    def _picked(self, slot: Slot, own: tuple[Slot, ...]) -> bool | None:
        picks = self.picks.get(slot.page, [])
        hits = [index for index, pick in enumerate(picks) if pick.answers(slot.value)]
        if not hits:
            return None
        others = [other.value for other in own if other != slot]
        return not any(
            pick.group == picks[hits[-1]].group and not any(pick.answers(other) for other in others)
            for pick in picks[hits[-1] + 1 :]
        )


def _pick(element: UIElement) -> PressedItem:
    _, *widget = element.element_id.split("/", 2)
    named = len(widget) == 2
    return PressedItem(widget[0] if named else element.role, element.text, widget[1] if named else "")
