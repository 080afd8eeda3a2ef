"""Walks every transition of a graph in the running app, and reports what has changed since it was written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import networkx as nx

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.graphs.base import OUTSIDE, AppGraph, Feature, GraphTransition, Mark
from trajmill.stages.graphs.explore.walker import AppWalker, Budget, OutOfBoundsError, WayLost
from trajmill.stages.graphs.network import marks_on_way, walkable
from trajmill.stages.graphs.operations import graph_start, take
from trajmill.stages.graphs.recognise import filled, is_on, page_on

_MOST_LOOKS = 3
"""Most looks after the first one, for effects that show late."""


class EdgeState(StrEnum):
    """What a walk over a transition has shown."""

    HOLDS = "holds"
    CHANGED = "changed"
    """It leads elsewhere, or something does not stand there."""
    LOST = "lost"
    """It cannot be walked: an element is gone."""
    FAILED = "failed"
    """The environment failed."""
    SKIPPED = "skipped"
    """It destroys, needs a log-in or cannot be reached, or the bounds were reached."""


_DOUBTFUL = (EdgeState.CHANGED, EdgeState.LOST)
"""States that a second walk from the start must confirm: a program under load can miss a press."""


class VerifiedEdge(NamedTuple):
    """One transition and its state."""

    page: str
    number: int
    """Place of the transition on its page."""
    state: EdgeState
    reason: str


class _EdgeWalk(NamedTuple):
    """The way to a transition and over it."""

    page: str
    number: int
    transition: GraphTransition
    steps: tuple[PathStep, ...]


async def verify_graph(
    graph: AppGraph, pool: EnvironmentPool, budget: Budget, workers: int, progress: Callable[[VerifiedEdge], None]
) -> list[VerifiedEdge]:
    """Walk all transitions.

    Args:
        graph: the graph.
        pool: environments of the app; it stays open.
        budget: the actions and seconds of all walks together.
        workers: walks at the same time.
        progress: called after each walk.
    """
    walks, skipped = _planned(graph)
    found = list(skipped)
    waiting = iter(walks)

    async def work() -> None:
        for walk in waiting:
            edge = await _verify(graph, pool, budget, walk)
            if edge.state in _DOUBTFUL:
                again = await _verify(graph, pool, budget, walk)
                edge = again if again.state is not EdgeState.SKIPPED else edge
            found.append(edge)
            progress(edge)

    await asyncio.gather(*(work() for _ in range(workers)))
    order = {name: index for index, name in enumerate(graph.pages)}
    return sorted(found, key=lambda edge: (order[edge.page], edge.number))


def _planned(graph: AppGraph) -> tuple[list[_EdgeWalk], list[VerifiedEdge]]:
    ways = nx.single_source_shortest_path(walkable(graph), graph.start)
    walks: list[_EdgeWalk] = []
    skipped: list[VerifiedEdge] = []
    for name, page in graph.pages.items():
        for index, transition in enumerate(page.transitions):
            marks = marks_on_way(graph, name, transition) - {Mark.LEAVES}
            reason = f"it is marked {', '.join(sorted(marks))}" if marks else ""
            if name not in ways:
                reason = "no way leads to its page"
            if not reason:
                try:
                    values = _values(graph, name, transition)
                    steps = (*_steps_along(graph, ways[name]), *take(graph, name, transition, values))
                    walks.append(_EdgeWalk(name, index, transition, steps))
                except KeyError as error:
                    reason = f"the slot {error} has no value"
            if reason:
                skipped.append(VerifiedEdge(name, index, EdgeState.SKIPPED, reason))
    return walks, skipped


def _steps_along(graph: AppGraph, pages: Sequence[str]) -> Iterator[PathStep]:
    for first, second in pairwise(pages):
        ways = [each for each in graph.pages[first].transitions if each.to == second]
        allowed = [each for each in ways if not marks_on_way(graph, first, each)]
        yield from take(graph, first, min(allowed, key=lambda each: len(each.slots)))


def _values(graph: AppGraph, page: str, transition: GraphTransition) -> dict[str, str]:
    """The first value of each slot that a transition uses."""
    slots = graph.pages[page].slots
    used = [*transition.slots, *([transition.by] if transition.by in slots else [])]
    return {name: next((v for v in slots[name].values if v != slots[name].default), "") for name in used}


async def _verify(graph: AppGraph, pool: EnvironmentPool, budget: Budget, walk: _EdgeWalk) -> VerifiedEdge:
    def edge(state: EdgeState, reason: str = "") -> VerifiedEdge:
        return VerifiedEdge(walk.page, walk.number, state, reason)

    try:
        async with pool.lease() as environment:
            walker = AppWalker(environment, graph_start(graph), graph.opening, budget)
            seen = await walker.go(walk.steps)
            if walk.transition.address and walk.transition.address in walker.refused:
                return edge(EdgeState.HOLDS)
            change = _change(graph, walk, seen)
            for _ in range(_MOST_LOOKS):
                if change:
                    change = _change(graph, walk, await walker.look_again())
            return edge(EdgeState.CHANGED, change) if change else edge(EdgeState.HOLDS)
    except WayLost as error:
        return edge(EdgeState.LOST, str(error))
    except EnvironmentFailure as error:
        return edge(EdgeState.FAILED, str(error))
    except OutOfBoundsError:
        return edge(EdgeState.SKIPPED, "the actions or seconds were used up")


def _change(graph: AppGraph, walk: _EdgeWalk, seen: Observation) -> str:
    """Return the first difference from the graph; empty if there is none."""
    page = page_on(graph, seen)
    if walk.transition.to == OUTSIDE:
        return "" if page is None else f"it leads to `{page}`, not out of the app"
    if page != walk.transition.to:
        return f"it leads to {f'`{page}`' if page else 'a page that the graph does not have'}"
    values = _values(graph, walk.page, walk.transition)
    elements = seen.elements or ()
    for feature in (filled(each, values) for each in walk.transition.shows):
        if not _is_open(feature) and not is_on(feature, elements):
            return f"{_words(feature)} is not shown"
    for feature in (filled(each, values) for each in walk.transition.lacks):
        if not _is_open(feature) and is_on(feature, elements):
            return f"{_words(feature)} is still shown"
    return ""


def _is_open(feature: Feature) -> bool:
    """Whether a feature still names a slot, which was set on an earlier page."""
    return "{" in f"{feature.text}{feature.value}"


def _words(feature: Feature) -> str:
    return ", ".join(f"{key} {value!r}" for key, value in feature.model_dump(exclude_defaults=True).items())
