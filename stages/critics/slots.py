"""Which of the user's constraints a control, or an item of a list, is meant to answer."""

from __future__ import annotations

import re
from collections.abc import Iterable

from schemas.query import Slot
from stages.critics.facts import OFF, ON, Control

_TRUE = frozenset({"true", "on", "yes", "enabled", "checked"})
_FALSE = frozenset({"false", "off", "no", "disabled", "unchecked"})
_STEM = 4
"""Words that agree in so many letters are taken for forms of one word."""


def slots_on(page: str, slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """The constraints that are set on a page."""
    return tuple(slot for slot in slots if slot.page == page)


def wanted(control: Control, slots: tuple[Slot, ...]) -> Slot | None:
    """The constraint that a control of a page answers, among the page's own; None for one the user left alone.

    A name that the control and the constraint share decides; without one, a choice answers the constraint whose value
    it offers, and a field the constraint whose value it holds.
    """
    able = [slot for slot in slots if _could_hold(control, slot)]
    named = [slot for slot in able if shared_words(slot.name, f"{control.key} {control.label}")]
    if named:
        return max(named, key=lambda slot: len(shared_words(slot.name, f"{control.key} {control.label}")))
    if control.kind == "choice":
        return able[0] if able else None
    return next((slot for slot in able if control.kind != "stepper" and holds(control, slot)), None)


def holds(control: Control, slot: Slot) -> bool:
    """Whether a control stands as the constraint asks; a box that carries the value as its words must be ticked."""
    if control.kind == "toggle" and same_value(control.label, slot.value):
        return control.value == ON
    return same_value(control.value, slot.value)


def same_value(shown: str, asked: str) -> bool:
    """Whether two texts are the same value, whatever their case; a switch that is `on` is `true`."""
    shown, asked = shown.casefold().strip(), asked.casefold().strip()
    if shown == asked:
        return True
    return (shown == ON and asked in _TRUE) or (shown == OFF and asked in _FALSE)


def mentions(text: str, value: str) -> bool:
    """Whether a text shows a value as words of its own; true and false show as any of their words."""
    lower = value.casefold().strip()
    for words in (_TRUE, _FALSE):
        if lower in words:
            return any(_as_words(text, word) for word in words)
    return bool(lower) and _as_words(text, lower)


def is_switch_value(value: str) -> bool:
    """Whether a value is one of a switch."""
    return value.casefold().strip() in _TRUE | _FALSE


def shared_words(one: str, other: str) -> set[str]:
    """The words, by their first letters, that two names share."""
    return _stems(one) & _stems(other)


def _could_hold(control: Control, slot: Slot) -> bool:
    match control.kind:
        case "choice":
            return any(same_value(option, slot.value) for option in control.options)
        case "toggle":
            return is_switch_value(slot.value) or same_value(control.label, slot.value)
        case "stepper":
            return slot.value.strip().lstrip("-").isdigit()
        case _:
            return True


def _as_words(text: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text.casefold()) is not None


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in re.findall(r"[a-z0-9]+", text.casefold()) if word not in _KIND_WORDS}


_KIND_WORDS = frozenset({"choice", "toggle", "stepper", "field"})
