"""Walks every transition of a graph in the running app, and reports what has changed since it was written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import networkx as nx

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.graphs.base import OUTSIDE, AppGraph, GraphTransition, Mark
from trajmill.stages.graphs.explore.walker import AppWalker, Budget, OutOfBoundsError, WayLost
from trajmill.stages.graphs.network import marks_on_way, walkable
from trajmill.stages.graphs.operations import graph_start, take
from trajmill.stages.graphs.recognise import filled, is_on, page_on

_MOST_LOOKS = 3
"""Most looks after the first one, for effects that show late."""


class EdgeState(StrEnum):
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
    page: str
    number: int
    """Place of the transition on its page."""
    state: EdgeState
    reason: str = ""


class _EdgeWalk(NamedTuple):
    page: str
    number: int
    transition: GraphTransition
    values: dict[str, str]
    """By slot that the transition uses, the value that it gets."""
    steps: tuple[PathStep, ...]


async def verify_graph(
    graph: AppGraph, pool: EnvironmentPool, budget: Budget, workers: int, progress: Callable[[VerifiedEdge], None]
) -> list[VerifiedEdge]:
    """Walk all transitions, `workers` at a time, within the budget; `progress` is called after each walk."""
    walks, found = _planned(graph)
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
            reason = reason if name in ways else "no way leads to its page"
            used = [each for each in (*transition.slots, transition.by) if each in page.slots]
            values = {each: next(iter(page.slots[each].offered), "") for each in used}
            try:
                steps = () if reason else (*_steps_along(graph, ways[name]), *take(graph, name, transition, values))
            except KeyError as error:
                reason = f"the slot {error} has no value"
            if reason:
                skipped.append(VerifiedEdge(name, index, EdgeState.SKIPPED, reason))
            else:
                walks.append(_EdgeWalk(name, index, transition, values, steps))
    return walks, skipped


def _steps_along(graph: AppGraph, pages: list[str]) -> list[PathStep]:
    steps: list[PathStep] = []
    for first, second in pairwise(pages):
        ways = [each for each in graph.pages[first].transitions if each.to == second]
        allowed = [each for each in ways if not marks_on_way(graph, first, each)]
        steps += take(graph, first, min(allowed, key=lambda each: len(each.slots)))
    return steps


async def _verify(graph: AppGraph, pool: EnvironmentPool, budget: Budget, walk: _EdgeWalk) -> VerifiedEdge:
    edge = VerifiedEdge(walk.page, walk.number, EdgeState.HOLDS)
    try:
        async with pool.lease() as environment:
            walker = AppWalker(environment, graph_start(graph), graph.opening, budget)
            seen = await walker.go(walk.steps)
            if walk.transition.address and walk.transition.address in walker.refused:
                return edge
            change = _change(graph, walk, seen)
            for _ in range(_MOST_LOOKS):
                if change:
                    change = _change(graph, walk, await walker.look_again())
            return edge._replace(state=EdgeState.CHANGED, reason=change) if change else edge
    except WayLost as error:
        return edge._replace(state=EdgeState.LOST, reason=str(error))
    except EnvironmentFailure as error:
        return edge._replace(state=EdgeState.FAILED, reason=str(error))
    except OutOfBoundsError:
        return edge._replace(state=EdgeState.SKIPPED, reason="the actions or seconds were used up")


def _change(graph: AppGraph, walk: _EdgeWalk, seen: Observation) -> str:
    """Return the first difference from the graph; empty if there is none."""
    page, transition = page_on(graph, seen), walk.transition
    if transition.to == OUTSIDE:
        return "" if page is None else f"it leads to `{page}`, not out of the app"
    if page != transition.to:
        return f"it leads to {f'`{page}`' if page else 'a page that the graph does not have'}"
    for features, wanted, words in ((transition.shows, True, "not shown"), (transition.lacks, False, "still shown")):
        for feature in (filled(each, walk.values) for each in features):
            # An open one names a slot that was set on an earlier page.
            if not feature.is_open and is_on(feature, seen.elements or ()) is not wanted:
                named = (f"{key} {value!r}" for key, value in feature.model_dump(exclude_defaults=True).items())
                return f"{', '.join(named)} is {words}"
    return ""
