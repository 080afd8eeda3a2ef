"""Finds what is wrong with a graph, by line: unreachable pages, ambiguous recognisers, slots that cannot be set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import networkx as nx

from trajmill.stages.environments.simulated.app_files.loader import Mistake
from trajmill.stages.graphs.base import ANSWER, OUTSIDE, VALUE, AppGraph, GraphPage, Recogniser, SlotKind
from trajmill.stages.graphs.file import GraphFile
from trajmill.stages.graphs.network import network, walkable
from trajmill.stages.graphs.plain_does import has_no_words
from trajmill.stages.graphs.recognise import looks_alike

_SLOT = re.compile(r"\{([a-z0-9][a-z0-9_-]*)\}")


class GraphFindings(NamedTuple):
    """What a check has found."""

    mistakes: tuple[Mistake, ...]
    """What makes walks or queries fail."""
    remarks: tuple[Mistake, ...]
    """What may be meant so, such as a page from which nothing leads on."""


def check_graph(file: GraphFile) -> GraphFindings:
    """Check a graph that could be read."""
    mistakes = (*_unreachable(file), *_ambiguous(file), *_slots(file), *_features(file), *_answers(file))
    by_line = sorted(mistakes, key=lambda mistake: mistake.line)
    return GraphFindings(tuple(by_line), (*_dead_ends(file), *_nameless(file)))


def _unreachable(file: GraphFile) -> Iterator[Mistake]:
    source, graph = file
    reached = nx.descendants(network(graph), graph.start) | {graph.start}
    for name in graph.pages:
        if name not in reached:
            text = f"no transitions lead from `{graph.start}` to `{name}`; add one, or remove the page"
            yield source.mistake(("pages", name), text)


def _dead_ends(file: GraphFile) -> Iterator[Mistake]:
    source, graph = file
    ways = walkable(graph)
    for name in graph.pages:
        if not any(end != name for end in ways.successors(name)):
            yield source.mistake(("pages", name), f"nothing leads on from `{name}`: paths end here")


def _nameless(file: GraphFile) -> Iterator[Mistake]:
    source, graph = file
    for name, page in graph.pages.items():
        for key in dict.fromkeys(each.by for each in page.transitions if has_no_words(name, page, each)):
            text = f"`{key}` has no name: no query asks for it until it has a `name`, or `does` says what it does"
            yield source.mistake(("pages", name, "elements", key), text)


def _ambiguous(file: GraphFile) -> Iterator[Mistake]:
    source, graph = file
    for name, page in graph.pages.items():
        if page.recognise.is_empty:
            text = f"nothing says how `{name}` is recognised; add `recognise` with what it shows"
            yield source.mistake(("pages", name), text)
    for (first, one), (second, other) in combinations(graph.pages.items(), 2):
        if not one.recognise.is_empty and _is_same(one.recognise, other.recognise):
            text = f"`{first}` and `{second}` are recognised alike; add what one of them shows or lacks"
            yield source.mistake(("pages", second, "recognise"), text)


def _is_same(first: Recogniser, second: Recogniser) -> bool:
    """Whether one screen may have both pages, and neither shows more than the other."""
    if set(first.shows) & set(second.lacks) or set(second.shows) & set(first.lacks):
        return False
    if first.screen or second.screen:
        return bool(first.screen and second.screen) and looks_alike(first.screen, second.screen)
    return set(first.shows) == set(second.shows)


def _slots(file: GraphFile) -> Iterator[Mistake]:
    source, graph = file
    for name, page in graph.pages.items():
        for key, slot in page.slots.items():
            path = ("pages", name, "slots", key)
            pressed = slot.kind in (SlotKind.CHOICE, SlotKind.LIST)
            if pressed and VALUE not in slot.target and not set(slot.values) <= slot.targets.keys():
                yield source.mistake(path, f"the target of `{key}` has no `{VALUE}`; add it, or name all `targets`")
            for value in slot.values if slot.kind is SlotKind.SLIDER else ():
                if value not in slot.keys and value != slot.default:
                    yield source.mistake(path, f"no key gives `{key}` the value `{value}`; add it to `keys`")
            if not any(value != slot.default for value in slot.values):
                yield source.mistake(path, f"`{key}` has no value to ask for; add `values`")
        yield from _unused_keys(file, name, page)


def _unused_keys(file: GraphFile, name: str, page: GraphPage) -> Iterator[Mistake]:
    for index, transition in enumerate(page.transitions):
        path = ("pages", name, "transitions", index)
        if transition.address and transition.to != OUTSIDE:
            text = f"it has an `address`, but leads to `{transition.to}`; write `to: {OUTSIDE}`, or remove the address"
            yield file.source.mistake(path, text)


def _features(file: GraphFile) -> Iterator[Mistake]:
    """Features of transitions that name a slot which the graph does not have."""
    source, graph = file
    known = _all_slots(graph)
    for name, page in graph.pages.items():
        for index, transition in enumerate(page.transitions):
            for key, features in (("shows", transition.shows), ("lacks", transition.lacks)):
                for feature in features:
                    named = _SLOT.findall(f"{feature.text or ''} {feature.value or ''}")
                    for slot in (each for each in named if each not in known):
                        text = f"there is no slot `{slot}` for `{{{slot}}}`; correct the name"
                        yield source.mistake(("pages", name, "transitions", index, key), text)


def _answers(file: GraphFile) -> Iterator[Mistake]:
    """Answers that no slot decides on, that cannot be read, or that are neither known nor prepared."""
    source, graph = file
    for name, page in graph.pages.items():
        for key, answer in page.answers.items():
            path = ("pages", name, "answers", key)
            if answer.of not in _all_slots(graph):
                yield source.mistake(path, f"there is no slot `{answer.of}`; correct `of`")
            if ANSWER not in answer.text:
                yield source.mistake(path, f"the text of `{key}` has no `{ANSWER}`; add it")
            if not (answer.known or answer.prepare):
                yield source.mistake(path, f"nobody knows `{key}`; add `known`, or `prepare` for the start state")


def _all_slots(graph: AppGraph) -> set[str]:
    return {slot for page in graph.pages.values() for slot in page.slots}
