"""Finds the slots of a page: fields that took a text, switches, and lists of which one item is pressed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.observation import UIElement
from trajmill.stages.graphs.base import VALUE, GraphSlot, SlotKind
from trajmill.stages.graphs.explore.base import Effect, Trial, TrialKind, WalkedScreen
from trajmill.stages.graphs.explore.naming import slug, unique
from trajmill.stages.graphs.explore.pages import FoundPage
from trajmill.stages.graphs.explore.plan import items_of
from trajmill.stages.graphs.operations import OFF, ON

_SWITCHES = frozenset({"checkbox", "switch"})
_MARKED = ("checked", "selected")


class FoundSlot(NamedTuple):
    """A slot, and the elements that belong to it."""

    name: str
    slot: GraphSlot
    targets: tuple[str, ...]


def slots_of(page: FoundPage, trials: Sequence[Trial], screens: Mapping[str, WalkedScreen]) -> list[FoundSlot]:
    """The slots of a page.

    Args:
        page: the page.
        trials: what was tried on it.
        screens: all screens by id.
    """
    found: list[FoundSlot] = []
    for name, slot, targets in (*_fields(page, trials, screens), *_switches(page, trials), *_lists(page)):
        taken = [each.name for each in found]
        found.append(FoundSlot(unique(slug(name) or slot.kind.value, taken), slot, targets))
    return found


def _fields(page: FoundPage, trials: Sequence[Trial], screens: Mapping[str, WalkedScreen]) -> Iterator[FoundSlot]:
    for trial in trials:
        if trial.kind is not TrialKind.FILL or trial.effect is not Effect.CHANGED:
            continue
        text = trial.steps[-1].text
        after = screens[trial.after].by_target.get(trial.target)
        if after is not None and text in (after.value, after.text):
            element = page.elements[trial.target].element
            slot = GraphSlot(
                kind=SlotKind.FIELD,
                target=trial.target,
                name=label_of(element),
                values=(text,),
                default=element.value,
            )
            yield FoundSlot(label_of(element), slot, (trial.target,))


def _switches(page: FoundPage, trials: Sequence[Trial]) -> Iterator[FoundSlot]:
    for trial in trials:
        found = page.elements.get(trial.target)
        if trial.undone and found is not None and found.element.role in _SWITCHES:
            default = ON if "checked" in found.element.states else OFF
            slot = GraphSlot(
                kind=SlotKind.SWITCH,
                target=trial.target,
                name=label_of(found.element),
                values=(OFF, ON),
                default=default,
            )
            yield FoundSlot(label_of(found.element), slot, (trial.target,))


def _lists(page: FoundPage) -> Iterator[FoundSlot]:
    for kind, targets in items_of(page).items():
        elements = {target: page.elements[target].element for target in targets}
        named = {element.text: target for target, element in elements.items() if element.text}
        if len(named) < 2:
            continue
        marked = [text for text, target in named.items() if set(_MARKED) & set(elements[target].states)]
        is_choice = kind.startswith("radio")
        slot = GraphSlot(
            kind=SlotKind.CHOICE if is_choice else SlotKind.LIST,
            values=tuple(named),
            default=marked[0] if marked and is_choice else "",
            **_pressed(named),
        )
        yield FoundSlot(kind.rpartition("/")[2].rpartition(" ")[2], slot, tuple(named.values()))


def _pressed(named: Mapping[str, str]) -> dict[str, object]:
    """The pattern of the elements to press, and those that do not follow it."""
    text, target = next(iter(named.items()))
    pattern = target.replace(text, VALUE) if text in target else VALUE
    return {
        "target": pattern,
        "targets": {each: to for each, to in named.items() if pattern.replace(VALUE, each) != to},
    }


def label_of(element: UIElement) -> str:
    """The name of a slot before anybody has named it: what its element says, else its id, else its role."""
    return element.text or element.element_id.rpartition("/")[2].rpartition(":")[2] or element.role
