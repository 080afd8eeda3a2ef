"""Finds the user's constraint that a control belongs to, and whether the control meets it."""

from __future__ import annotations

from collections.abc import Iterable

from trajmill.schemas.tables.query import Slot
from trajmill.stages.critics.annotated.wording import FALSE_WORDS, TRUE_WORDS, shared_stems
from trajmill.stages.critics.trees.screen_state import OFF, ON, Control


def slots_on(page: str, slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """The constraints that belong to a page."""
    return tuple(slot for slot in slots if slot.page == page)


def wanted(control: Control, slots: tuple[Slot, ...]) -> Slot | None:
    """The constraint of a page that a control belongs to; None if the user asks nothing of it.

    A shared name decides. Without one, a choice belongs to the constraint whose value it offers, and a field to the
    constraint whose value it has.
    """
    if control.kind == "search":
        return None
    able = [slot for slot in slots if _could_hold(control, slot)]
    named = [slot for slot in able if _shared(control, slot)]
    if named:
        return max(named, key=lambda slot: len(_shared(control, slot)))
    if control.kind == "choice":
        return able[0] if able else None
    return next((slot for slot in able if control.kind != "stepper" and holds(control, slot)), None)


def holds(control: Control, slot: Slot) -> bool:
    """Whether a control has the constraint's value; a box whose label is the value must be ticked."""
    if control.kind == "toggle" and same_value(control.label, slot.value):
        return control.value == ON
    return same_value(control.value, slot.value)


def same_value(shown: str, asked: str) -> bool:
    """Whether two texts are the same value; case does not matter, and `on` equals `true`."""
    shown, asked = shown.casefold().strip(), asked.casefold().strip()
    if shown == asked:
        return True
    return (shown == ON and asked in TRUE_WORDS) or (shown == OFF and asked in FALSE_WORDS)


def _could_hold(control: Control, slot: Slot) -> bool:
    match control.kind:
        case "choice":
            return any(same_value(option, slot.value) for option in control.options)
        case "toggle":
            switch = slot.value.casefold().strip() in TRUE_WORDS | FALSE_WORDS
            return switch or same_value(control.label, slot.value)
        case "stepper":
            return slot.value.strip().lstrip("-").isdigit()
        case _:
            return True


def _shared(control: Control, slot: Slot) -> set[str]:
    return shared_stems(slot.name.replace("_", " "), f"{control.key.replace('_', ' ')} {control.label}")
