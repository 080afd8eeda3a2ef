"""Says what a trial changed on a screen, as features that stand there afterwards or are gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trajmill.schemas.observation import UIElement
from trajmill.stages.graphs.base import Feature
from trajmill.stages.graphs.explore.base import WalkedScreen
from trajmill.stages.graphs.recognise import is_on

_MOST = 3
_STATES = ("checked", "selected")


class ScreenChange(NamedTuple):
    """The difference between two screens."""

    shows: tuple[Feature, ...]
    lacks: tuple[Feature, ...]


def screen_change(before: WalkedScreen, after: WalkedScreen, slots: Mapping[str, str]) -> ScreenChange:
    """What stands on the second screen alone, and what on the first one alone.

    Args:
        before: the first screen.
        after: the second screen.
        slots: by the text that a trial used, the slot that it was the value of; features say `{slot}` instead.
    """
    shows = [_with_slots(feature, slots) for feature in _features(after) if not is_on(feature, before.elements)]
    lacks = [feature for feature in _features(before) if not is_on(feature, after.elements) and not feature.value]
    # What says a value of a slot tells more than counts and other side effects.
    said = [feature for feature in shows if says_slot(feature)]
    return ScreenChange(tuple((said or shows)[:_MOST]), () if said else tuple(lacks[:_MOST]))


def says_slot(feature: Feature) -> bool:
    """Whether a feature has the value of a slot in it."""
    return "{" in f"{feature.text}{feature.value}"


def _features(screen: WalkedScreen) -> dict[Feature, None]:
    found = (_feature(element) for element in screen.elements if "title" not in element.states)
    return {feature: None for feature in found if feature is not None}


def _feature(element: UIElement) -> Feature | None:
    if not (element.text or element.value or element.element_id):
        return None
    state = next((state for state in _STATES if state in element.states and element.role != "menu"), "")
    return Feature(
        role=element.role,
        text=element.text or None,
        id=element.element_id,
        state=state,
        value=element.value or None,
    )


def _with_slots(feature: Feature, slots: Mapping[str, str]) -> Feature:
    text, value = _replaced(feature.text, slots), _replaced(feature.value, slots)
    # An id with the value of a slot in it is another one for each value.
    own_id = "" if any(each in feature.id for each in slots) and text else feature.id
    return feature.model_copy(update={"text": text, "value": value, "id": own_id})


def _replaced(text: str | None, slots: Mapping[str, str]) -> str | None:
    if text is None:
        return None
    for value, slot in sorted(slots.items(), key=lambda each: -len(each[0])):
        text = text.replace(value, "{" + slot + "}")
    return text
