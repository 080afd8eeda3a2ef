"""Reads the annotated path of a query as transitions of its graph, and what these show at the end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.tables.query import PathStep
from trajmill.stages.graphs.base import AppGraph, Feature, GraphPage, GraphTransition, SlotKind
from trajmill.stages.graphs.recognise import filled

_PLACE = re.compile(r"\{[a-z0-9][a-z0-9_-]*\}")


class TakenTransition(NamedTuple):
    """A transition that a path takes."""

    page: str
    transition: GraphTransition
    values: Mapping[str, str]
    """By slot of the page, the value that the path has given it."""


def transitions_of(graph: AppGraph, path: Sequence[PathStep]) -> list[TakenTransition]:
    """The transitions that a path takes, in order."""
    taken: list[TakenTransition] = []
    values: dict[str, str] = {}
    for step in path:
        name = step.page.partition(".")[2]
        page = graph.pages.get(name)
        if page is None:
            continue
        values |= _given(page, step)
        transition = _transition(page, step)
        if transition is not None:
            taken.append(TakenTransition(name, transition, dict(values)))
            values = {}
    return taken


def wanted_features(graph: AppGraph, path: Sequence[PathStep], end: str) -> list[Feature]:
    """What must stand on the last screen: what the last transitions show there, and the values given on the way."""
    wanted: list[Feature] = []
    is_last = True
    for page, transition, values in reversed(transitions_of(graph, path)):
        wanted += [filled(each, values) for each in transition.shows if is_last or _PLACE.search(each.text or "")]
        is_last = is_last and page == end
    return wanted


def _given(page: GraphPage, step: PathStep) -> dict[str, str]:
    """The value that a step gives a slot."""
    if step.operation in ("type", "replace"):
        return {name: step.text for name, slot in page.slots.items() if slot.target == step.target}
    return {
        name: value
        for name, slot in page.slots.items()
        if slot.kind in (SlotKind.LIST, SlotKind.CHOICE)
        for value in slot.values
        if slot.target_of(value) == step.target
    }


def _transition(page: GraphPage, step: PathStep) -> GraphTransition | None:
    for transition in page.transitions:
        if transition.operation == "key":
            if step.operation == "key" and step.text == transition.keys:
                return transition
        elif step.operation == transition.operation and step.target in _pressed(page, transition):
            return transition
    return None


def _pressed(page: GraphPage, transition: GraphTransition) -> set[str]:
    if transition.by in page.elements:
        return {page.elements[transition.by].target}
    slot = page.slots.get(transition.by)
    return {slot.target_of(value) for value in slot.values} if slot else set()
