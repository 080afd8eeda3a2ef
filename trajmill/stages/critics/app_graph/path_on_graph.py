"""What a query asks for: the annotated path as acts, opened items and settings, and what the last screen must show."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.tables.query import PathStep
from trajmill.stages.graphs.base import AppGraph, Feature, GraphPage, GraphTransition, SlotKind
from trajmill.stages.graphs.operations import OFF, ON
from trajmill.stages.graphs.recognise import filled

_PLACE = re.compile(r"\{[a-z0-9][a-z0-9_-]*\}")


class Act(NamedTuple):
    """Something that is done beside going to another page."""

    name: str
    """The operated element or slot, or the pressed keys, whatever page they are on."""
    values: Mapping[str, str]
    """By slot, the values that it is done with, and the items that were opened before."""
    page: str


class TakenTransition(NamedTuple):
    """A transition that a path takes."""

    page: str
    transition: GraphTransition
    values: Mapping[str, str]
    """By slot of the page, the value that the path has given it."""


class AskedFor(NamedTuple):
    """What a path does."""

    taken: tuple[TakenTransition, ...]
    acts: tuple[Act, ...]
    opened: Mapping[str, str]
    """By slot of kind list, the item that is opened last."""
    settings: Mapping[str, str]
    """By slot of the last page, the value that is set there and needs no further act."""
    given: frozenset[tuple[str, str]]
    """All pairs of slot and value on the way."""

    def shown_at(self, end: str) -> list[Feature]:
        """Return what must stand on the last screen: what the last transitions show there, and all values given."""
        found: list[Feature] = []
        is_last = True
        for page, transition, values in reversed(self.taken):
            found += [filled(each, values) for each in transition.shows if is_last or _PLACE.search(each.text or "")]
            is_last = is_last and page == end
        return found


def asked_for(graph: AppGraph, path: Sequence[PathStep]) -> AskedFor:
    """Return what an annotated path does beside going from page to page."""
    taken: list[TakenTransition] = []
    acts: list[Act] = []
    opened: dict[str, str] = {}
    given: set[tuple[str, str]] = set()
    values: dict[str, str] = {}
    names = [step.page.partition(".")[2] for step in path]
    for at, (name, step) in enumerate(zip(names, path, strict=True)):
        page = graph.pages.get(name)
        if page is None:
            continue
        values |= _given(page, step, path[at - 1].target if at else "")
        transition = _transition(page, step, names[at + 1] if at + 1 < len(names) else name)
        if transition is None:
            continue
        taken.append(TakenTransition(name, transition, values))
        given |= set(values.items())
        act = act_of(name, transition, values, opened)
        if act is not None:
            acts.append(act)
        elif transition.by in values:
            opened[transition.by] = values[transition.by]
        values = {}
    return AskedFor(tuple(taken), tuple(acts), opened, values, frozenset(given | set(values.items())))


def act_of(
    page: str,
    transition: GraphTransition,
    values: Mapping[str, str] | None = None,
    opened: Mapping[str, str] | None = None,
) -> Act | None:
    """Return what a transition does beside going to another page; None for nothing.

    Args:
        page: the page that it begins at.
        transition: the transition.
        values: by slot of the page, its value.
        opened: by slot of kind list, the item that was opened before.
    """
    stays = transition.to == page and bool(transition.shows or transition.lacks)
    if not (transition.slots or transition.goal or stays):
        return None
    own = {name: values[name] for name in (*transition.slots, transition.by) if values and name in values}
    return Act(transition.by or transition.keys, {**(opened or {}), **own}, page)


def _given(page: GraphPage, step: PathStep, pressed_before: str) -> dict[str, str]:
    """Return the value that a step gives a slot."""
    found: dict[str, str] = {}
    for name, slot in page.slots.items():
        match step.operation:
            case "type" | "replace" if slot.target == step.target:
                found[name] = step.text
            case "key" if slot.target == pressed_before:
                values = [value for value, key in slot.keys.items() if key == step.text]
                found |= {name: values[-1]} if values else {}
            case "tap" if slot.kind is SlotKind.SWITCH and slot.target == step.target:
                found[name] = OFF if slot.default == ON else ON
            case "tap" if slot.kind in (SlotKind.LIST, SlotKind.CHOICE):
                values = [value for value in slot.values if slot.target_of(value) == step.target]
                found |= {name: values[-1]} if values else {}
    return found


def _transition(page: GraphPage, step: PathStep, next_page: str) -> GraphTransition | None:
    found = [each for each in page.transitions if each.operation == step.operation and _operates(page, each, step)]
    return next((each for each in found if each.to == next_page), found[0] if found else None)


def _operates(page: GraphPage, transition: GraphTransition, step: PathStep) -> bool:
    if transition.operation == "key":
        return step.text == transition.keys
    if transition.by in page.elements:
        return step.target == page.elements[transition.by].target
    slot = page.slots.get(transition.by)
    return slot is not None and step.target in {slot.target_of(value) for value in slot.values}
