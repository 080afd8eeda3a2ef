"""Finds what is wrong with a graph, by line: unreachable pages, ambiguous recognisers, slots that cannot be set."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import networkx as nx

from trajmill.stages.environments.simulated.app_files.loader import Mistake
from trajmill.stages.graphs.asked import NotAsked, why_not
from trajmill.stages.graphs.base import ANSWER, OUTSIDE, VALUE, AppGraph, GraphPage, Recogniser, SlotKind
from trajmill.stages.graphs.file import GraphFile
from trajmill.stages.graphs.network import network, walkable
from trajmill.stages.graphs.recognise import looks_alike

_Found = Iterator[tuple[tuple[str | int, ...], str]]
"""The place of a mistake within a page, and its text."""


class GraphFindings(NamedTuple):
    mistakes: tuple[Mistake, ...]
    """What makes walks or queries fail."""
    remarks: tuple[Mistake, ...]
    """What may be intended, such as a page from which nothing leads on."""


def check_graph(file: GraphFile) -> GraphFindings:
    source, graph = file
    reached = nx.descendants(network(graph), graph.start) | {graph.start}
    known = {slot for page in graph.pages.values() for slot in page.slots}
    mistakes: list[Mistake] = []
    for name, page in graph.pages.items():
        if name not in reached:
            text = f"no transitions lead from `{graph.start}` to `{name}`; add one, or remove the page"
            mistakes.append(source.mistake(("pages", name), text))
        if page.recognise.is_empty:
            text = f"`{name}` has no `recognise`; add it with what the page shows"
            mistakes.append(source.mistake(("pages", name), text))
        found = (*_slots(page), *_transitions(page, known), *_answers(page, known))
        mistakes += (source.mistake(("pages", name, *path), text) for path, text in found)
    for (first, one), (second, other) in combinations(graph.pages.items(), 2):
        if not one.recognise.is_empty and is_same(one.recognise, other.recognise):
            text = f"`{first}` and `{second}` are recognised alike; add what one of them shows or lacks"
            mistakes.append(source.mistake(("pages", second, "recognise"), text))
    return GraphFindings(tuple(sorted(mistakes, key=lambda mistake: mistake.line)), tuple(_remarks(file)))


def is_same(first: Recogniser, second: Recogniser) -> bool:
    """Whether one screen may have both pages, and neither shows more than the other."""
    if set(first.shows) & set(second.lacks) or set(second.shows) & set(first.lacks):
        return False
    if first.screen or second.screen:
        return bool(first.screen and second.screen) and looks_alike(first.screen, second.screen)
    return set(first.shows) == set(second.shows)


def _slots(page: GraphPage) -> _Found:
    for key, slot in page.slots.items():
        path = ("slots", key)
        if slot.is_picked and VALUE not in slot.target and not set(slot.values) <= slot.targets.keys():
            yield path, f"the target of `{key}` has no `{VALUE}`; add it, or name all `targets`"
        for value in slot.offered if slot.kind is SlotKind.SLIDER else ():
            if value not in slot.keys:
                yield path, f"no key gives `{key}` the value `{value}`; add it to `keys`"
        if not slot.offered:
            yield path, f"`{key}` has no value to ask for; add `values`"


def _transitions(page: GraphPage, known: set[str]) -> _Found:
    """Yield addresses of transitions within the app, and slots in features that the graph does not have."""
    for index, each in enumerate(page.transitions):
        path = ("transitions", index)
        if each.address and each.to != OUTSIDE:
            yield path, f"it has an `address`, but leads to `{each.to}`; write `to: {OUTSIDE}`, or remove the address"
        for key, features in (("shows", each.shows), ("lacks", each.lacks)):
            for slot in (slot for feature in features for slot in feature.slots if slot not in known):
                yield (*path, key), f"there is no slot `{slot}` for `{{{slot}}}`; correct the name"


def _answers(page: GraphPage, known: set[str]) -> _Found:
    """Yield answers that no slot decides on, that cannot be read, or that are neither known nor prepared."""
    for key, answer in page.answers.items():
        path = ("answers", key)
        if answer.of not in known:
            yield path, f"there is no slot `{answer.of}`; correct `of`"
        if ANSWER not in answer.text:
            yield path, f"the text of `{key}` has no `{ANSWER}`; add it"
        if not (answer.known or answer.prepare):
            yield path, f"`{key}` has no answer; add `known`, or `prepare` for the start state"


def _remarks(file: GraphFile) -> Iterator[Mistake]:
    source, graph = file
    reached = walkable(graph)
    for name in graph.pages:
        if not any(end != name for end in reached.successors(name)):
            yield source.mistake(("pages", name), f"nothing leads on from `{name}`: paths end here")
    for name, page in graph.pages.items():
        ways = [each for each in page.transitions if each.by in page.elements]
        for key in dict.fromkeys(each.by for each in ways if why_not(graph, name, each) is NotAsked.NO_WORDS):
            if page.elements[key].is_nameless:
                text = f"`{key}` has no name: no query asks for it; add `name`, or `does` with its effect"
                yield source.mistake(("pages", name, "elements", key), text)


def sound(graph: AppGraph) -> AppGraph:
    """Leave out what `graph check` would refuse: slots without a value, pages like others, pages nothing leads to."""
    pages = {name: _with_values(name, page) for name, page in graph.pages.items()}
    same: dict[str, str] = {}
    for (first, one), (second, other) in combinations(pages.items(), 2):
        if not {first, second} & same.keys() and is_same(one.recognise, other.recognise):
            same[second] = first
    unknown = {name for name, page in pages.items() if page.recognise.is_empty and name != graph.start}
    kept = {name: _leading(page, same, unknown) for name, page in pages.items() if name not in same.keys() | unknown}
    whole = graph.model_copy(update={"pages": kept})
    reached = nx.descendants(network(whole), graph.start) | {graph.start}
    return whole.model_copy(update={"pages": {name: page for name, page in kept.items() if name in reached}})


def _with_values(name: str, page: GraphPage) -> GraphPage:
    """Return a page without the slots that no value can be asked for, and what is operated by them.

    What sets a field of a form is no transition of its own: sending the form reads it.
    """
    slots = {name: slot for name, slot in page.slots.items() if slot.offered}
    lost = page.slots.keys() - slots.keys()
    kept = (each for each in page.transitions if lost.isdisjoint((each.by, *each.slots, *each.after)))
    ways = tuple(each for each in kept if each.submits or each.to != name or each.by not in page.sent)
    return page.model_copy(update={"slots": slots, "transitions": ways})


def _leading(page: GraphPage, same: dict[str, str], unknown: set[str]) -> GraphPage:
    ways = (each.model_copy(update={"to": same.get(each.to, each.to)}) for each in page.transitions)
    return page.model_copy(update={"transitions": tuple(each for each in ways if each.to not in unknown)})
