"""What an agent has set, picked and seen so far, kept step by step from the screens alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Slot
from trajmill.stages.critics.annotated.slots import holds, same_value, slots_on, wanted
from trajmill.stages.critics.trees.replay import SeenStep
from trajmill.stages.critics.trees.screen_state import Control, ScreenState


class PressedItem(NamedTuple):
    """A press on something that is no control: an item, a tab, a button."""

    group: str
    """The list it stands in, else its role: what it is an alternative to."""
    text: str
    name: str
    """What the platform calls the item, where it does."""

    def answers(self, value: str) -> bool:
        """Whether it is the item with this value."""
        return same_value(self.text, value) or same_value(self.name, value)


class ControlState(NamedTuple):
    """A control as it stood when first seen, and as last seen."""

    control: Control
    first: str

    @property
    def moved(self) -> bool:
        """Whether it stands otherwise than when first seen."""
        return self.control.value != self.first


@dataclass(slots=True)
class EpisodeState:
    """The account of one episode so far."""

    standings: dict[tuple[str, str], ControlState] = field(default_factory=dict)
    """By page and key of the control."""
    picks: dict[str, list[PressedItem]] = field(default_factory=dict)
    """By page: the items pressed there, and whatever else was pressed with an effect, oldest first."""
    typed: dict[str, list[str]] = field(default_factory=dict)
    """By page: the texts typed into fields there; searches do not count."""
    shown: dict[str, set[str]] = field(default_factory=dict)
    """By page: values worth noting that have been on it."""
    forms: set[str] = field(default_factory=set)
    """Pages that are forms."""
    pages: list[str] = field(default_factory=list)
    """Pages in the order in which they came up; a page that comes up again is here again."""

    def enter(self, state: ScreenState) -> None:
        """Take note of a screen."""
        if not self.pages or self.pages[-1] != state.page:
            self.pages.append(state.page)
        if state.is_form:
            self.forms.add(state.page)
        if state.values:
            self.shown.setdefault(state.page, set()).update(state.values)
        for key, control in state.controls.items():
            self._stand((state.page, key), control)

    def observe(self, step: SeenStep) -> None:
        """Take note of a step and of the screen it led to."""
        element = step.action.element
        if step.action.presses and element is not None and (element.role == "list_item" or not step.outcome.same):
            self.picks.setdefault(step.outcome.before.page, []).append(_pick(element))
        if step.action.kind == "type" and element is not None and element.role == "text_field":
            self.typed.setdefault(step.outcome.before.page, []).append(step.action.words)
        for change in step.outcome.changes:
            place = (step.outcome.before.page, change.control.key)
            self.standings.setdefault(place, ControlState(change.control, change.old))
        self.enter(step.outcome.after)

    def _stand(self, place: tuple[str, str], control: Control) -> None:
        if control.kind == "choice" and not control.value:
            return
        known = self.standings.get(place)
        first = known.first if known is not None else control.value
        self.standings[place] = ControlState(control, first)

    def moved(self) -> list[tuple[str, Control]]:
        """Page and control of everything that stands otherwise than when first seen; searches do not count."""
        return [
            (page, standing.control)
            for (page, _), standing in self.standings.items()
            if standing.moved and standing.control.kind != "search"
        ]

    def evidence(self, slot: Slot, slots: tuple[Slot, ...]) -> bool | None:
        """Whether a constraint is met where it is set: True, False, or None where nothing was seen of it.

        `slots` are all constraints of the task: a pick that answers another one does not speak against this one.
        """
        own = slots_on(slot.page, slots)
        meant = [
            standing.control
            for (page, _), standing in self.standings.items()
            if page == slot.page and wanted(standing.control, own) == slot
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
