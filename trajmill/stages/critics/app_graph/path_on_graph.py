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
    """Where it is done."""


class TakenTransition(NamedTuple):
    """A transition that a path takes."""

    page: str
    transition: GraphTransition
    values: Mapping[str, str]
    """By slot of the page, the value that the path has given it."""


class AskedFor(NamedTuple):
    """What a path does."""

    acts: tuple[Act, ...]
    opened: Mapping[str, str]
    """By slot of kind list, the item that is opened last."""
    settings: Mapping[str, str]
    """By slot of the last page, the value that is set there and needs no further act."""
    given: frozenset[tuple[str, str]]
    """All pairs of slot and value on the way."""


def asked_for(graph: AppGraph, path: Sequence[PathStep]) -> AskedFor:
    """What an annotated path does beside going from page to page."""
    acts: list[Act] = []
    opened: dict[str, str] = {}
    given: set[tuple[str, str]] = set()
    taken, left = _walk(graph, path)
    for page, transition, values in taken:
        given |= set(values.items())
        if is_act(page, transition):
            own = {name: values[name] for name in slots_of(transition) if name in values}
            acts.append(Act(name_of(transition), {**opened, **own}, page))
        elif transition.by in values:
            opened[transition.by] = values[transition.by]
    return AskedFor(tuple(acts), opened, left, frozenset(given | set(left.items())))


def transitions_of(graph: AppGraph, path: Sequence[PathStep]) -> list[TakenTransition]:
    """The transitions that a path takes, in order."""
    return _walk(graph, path)[0]


def wanted_features(graph: AppGraph, path: Sequence[PathStep], end: str) -> list[Feature]:
    """What must stand on the last screen: what the last transitions show there, and the values given on the way."""
    wanted: list[Feature] = []
    is_last = True
    for page, transition, values in reversed(transitions_of(graph, path)):
        wanted += [filled(each, values) for each in transition.shows if is_last or _PLACE.search(each.text or "")]
        is_last = is_last and page == end
    return wanted


def is_act(page: str, transition: GraphTransition) -> bool:
    """Whether a transition does more than to go to another page."""
    stays = transition.to == page and bool(transition.shows or transition.lacks)
    return bool(transition.slots or transition.goal) or stays


def name_of(transition: GraphTransition) -> str:
    """What is operated, whatever page it is on."""
    return transition.by or transition.keys


def slots_of(transition: GraphTransition) -> tuple[str, ...]:
    """The slots whose values a transition is taken with."""
    return (*transition.slots, transition.by)


def _walk(graph: AppGraph, path: Sequence[PathStep]) -> tuple[list[TakenTransition], dict[str, str]]:
    """The transitions of a path, and the values that are given after the last one."""
    taken: list[TakenTransition] = []
    values: dict[str, str] = {}
    names = [step.page.partition(".")[2] for step in path]
    for at, (name, step) in enumerate(zip(names, path, strict=True)):
        page = graph.pages.get(name)
        if page is None:
            continue
        values |= _given(page, step, path[at - 1] if at else None)
        transition = _transition(page, step, names[at + 1] if at + 1 < len(names) else name)
        if transition is not None:
            taken.append(TakenTransition(name, transition, dict(values)))
            values = {}
    return taken, values


def _given(page: GraphPage, step: PathStep, before: PathStep | None) -> dict[str, str]:
    """The value that a step gives a slot."""
    slots = page.slots.items()
    if step.operation in ("type", "replace"):
        return {name: step.text for name, slot in slots if slot.target == step.target}
    if step.operation == "key":
        pressed = before.target if before is not None else ""
        keys = [(name, slot.keys) for name, slot in slots if slot.target == pressed]
        return {name: value for name, by_value in keys for value, key in by_value.items() if key == step.text}
    if step.operation != "tap":
        return {}
    switched = {
        name: OFF if slot.default == ON else ON
        for name, slot in slots
        if slot.kind is SlotKind.SWITCH and slot.target == step.target
    }
    return switched | {
        name: value
        for name, slot in slots
        if slot.kind in (SlotKind.LIST, SlotKind.CHOICE)
        for value in slot.values
        if slot.target_of(value) == step.target
    }


def _transition(page: GraphPage, step: PathStep, next_page: str) -> GraphTransition | None:
    found = [each for each in page.transitions if _takes(page, each, step)]
    return next((each for each in found if each.to == next_page), found[0] if found else None)


def _takes(page: GraphPage, transition: GraphTransition, step: PathStep) -> bool:
    if transition.operation == "key":
        return step.operation == "key" and step.text == transition.keys
    return step.operation == transition.operation and step.target in _pressed(page, transition)


def _pressed(page: GraphPage, transition: GraphTransition) -> set[str]:
    if transition.by in page.elements:
        return {page.elements[transition.by].target}
    slot = page.slots.get(transition.by)
    return {slot.target_of(value) for value in slot.values} if slot else set()
