"""Reads the values that the slots of a page hold on a screen, each only in the element where it belongs."""

from __future__ import annotations

from collections.abc import Mapping

from trajmill.schemas.observation import UIElement
from trajmill.stages.graphs.base import GraphPage, GraphSlot, SlotKind
from trajmill.stages.graphs.operations import OFF, ON

_MARKED = frozenset({"checked", "selected"})


def value_on(slot: GraphSlot, elements: Mapping[str, UIElement]) -> str | None:
    """The value of a slot on a screen; None if the screen does not show it.

    Args:
        slot: a slot; lists have no value, because an item that is pressed need not stay marked.
        elements: the elements of the screen by their names in paths.
    """
    match slot.kind:
        case SlotKind.LIST:
            return None
        case SlotKind.FIELD | SlotKind.SLIDER:
            found = elements.get(slot.target)
            return None if found is None else found.value
        case SlotKind.SWITCH:
            found = elements.get(slot.target)
            return None if found is None else ON if _is_marked(found) else OFF
        case SlotKind.CHOICE if slot.opens:
            opener = elements.get(slot.opens)
            return None if opener is None else _chosen(slot, opener)
        case SlotKind.CHOICE:
            options = {value: elements.get(slot.target_of(value)) for value in slot.values}
            return next((value for value, option in options.items() if option and _is_marked(option)), None)


def values_on(page: GraphPage, elements: Mapping[str, UIElement]) -> dict[str, str]:
    """By slot, the values that a screen of a page shows."""
    found = {name: value_on(slot, elements) for name, slot in page.slots.items()}
    return {name: value for name, value in found.items() if value is not None}


def pressed_value(slot: GraphSlot, names: set[str]) -> str | None:
    """The item or option with one of these names in paths; None if it is none that the graph lists."""
    if slot.kind not in (SlotKind.LIST, SlotKind.CHOICE):
        return None
    return next((value for value in slot.values if slot.target_of(value) in names), None)


def is_same(one: str, other: str) -> bool:
    """Whether two values are equal; white space at their ends does not count."""
    return one.strip() == other.strip()


def _is_marked(element: UIElement) -> bool:
    return not _MARKED.isdisjoint(element.states)


def _chosen(slot: GraphSlot, opener: UIElement) -> str:
    shown = [opener.value, opener.text]
    return next((value for value in slot.values if slot.shown_for(value) in shown), opener.value or opener.text)
