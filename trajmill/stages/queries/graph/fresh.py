"""Adds new training queries to a run from its navigation graphs: other values, other combinations, other phrasings.

The held-out queries stay as they are: a new query has neither their goals, nor their words, nor their apps.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Collection, Hashable
from random import Random
from typing import NamedTuple

from trajmill.schemas.errors import StageError
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.graph.drafting import draft
from trajmill.stages.queries.graph.generate import PASSED, REPHRASINGS, SPARE_GOALS
from trajmill.stages.queries.graph.grammar import GrammarWriter
from trajmill.stages.queries.graph.spec import GraphQueriesSpec
from trajmill.stages.queries.graph.splits import divide_tasks, draw_goals
from trajmill.stages.queries.graph.validation import SimulatedValidator
from trajmill.stages.queries.taken import TakenQueries


class FreshRequest(NamedTuple):
    """What is wanted."""

    wanted: int
    level: int
    """The highest difficulty of the new queries; as many as possible have it."""
    seed: int
    """Another seed gives other queries."""


async def fresh_queries(
    world: World, settings: GraphQueriesSpec, known: Collection[Query], request: FreshRequest, origin: Origin
) -> tuple[Query, ...]:
    """New training queries, at most `request.wanted`; each has been walked and meets its goal check.

    The hardest wanted ones come first, and new goals before new words for a known goal.

    Args:
        world: the apps and errands with their navigation DAGs.
        settings: what is held out.
        known: all queries of the run.
        request: how many, and how hard.
        origin: common columns of the rows.

    Raises:
        BadInputError: an app to hold out does not exist, or a phrasing cannot be parsed.
    """
    taken, validator = TakenQueries(known), SimulatedValidator(world)
    validation_apps = settings.validation_apps(world.apps)
    tasks = divide_tasks(world, settings.heldout_app_names, validation_apps).trained
    added: list[Query] = []
    for turn in range(REPHRASINGS):
        drafts = [query async for query in _drafts(tasks, request, origin, turn) if query.difficulty <= request.level]
        for query in sorted(drafts, key=lambda query: (-query.difficulty, taken.has_goal(query))):
            if len(added) == request.wanted:
                return tuple(added)
            if taken.allows(query) and validator.walk(query) is None:
                taken.add(query)
                added.append(query.model_copy(update={"validation": PASSED}))
    return tuple(added)


async def _drafts(
    tasks: Collection[TaskGraph], request: FreshRequest, origin: Origin, turn: int
) -> AsyncIterator[Query]:
    """One draft for each of some goals of each task; the tasks are in a random order."""
    ordered = sorted(tasks, key=lambda task: _derive(request, task.name, turn))
    writer, of_task = GrammarWriter(), SPARE_GOALS * math.ceil(request.wanted / max(len(tasks), 1))
    for task in ordered:
        try:
            goals = draw_goals(task, of_task, Random(_derive(request, task.name, "goals", turn)))
            for goal in goals:
                seed = _derive(request, task.name, goal.key, turn)
                yield await draft(task, goal, Split.TRAIN, False, writer, origin, seed)
        except StageError:
            continue  # The first round has told why this task gives no query.


def _derive(request: FreshRequest, *parts: Hashable) -> int:
    return int(content_id("fresh", request.seed, *parts), 16)
