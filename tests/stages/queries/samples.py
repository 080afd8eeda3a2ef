"""Samples that tests choose by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.environments.simulated.annotations import PathMetadata, path_metadata
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.base import (
    Candidate,
    Goal,
    GrammarWriter,
    NewQueries,
    QuerySource,
    SourceContext,
    UnseenApps,
    WalkQueries,
    draft,
)
from trajmill.stages.queries.generate import QuerySet
from trajmill.stages.queries.tasks.source import TaskGoal, paths


def chosen(task: TaskGraph, **values: Scalar) -> TaskGoal:
    """The sample with these slot values, on the first path of the task."""
    return chosen_through(task, task.start, **values)


def chosen_through(task: TaskGraph, page: str, **values: Scalar) -> TaskGoal:
    """The sample with these slot values, on the first path that passes a page."""
    path = next(path for path in paths(task) if page in path)
    return TaskGoal(
        task, path, {slot.spec.name: values[slot.spec.name] for slot in task.slots if slot.spec.name in values}
    )


def described(task: TaskGraph, sample: TaskGoal) -> PathMetadata:
    """What a writer is told about a sample."""
    return path_metadata(task, sample.path, sample.asked)


def drafted(goal: Goal, origin: Origin, seed: int = 0, heldout: bool = False, split: Split = Split.TRAIN) -> Query:
    """The query of a goal in the words of its grammar, not walked."""
    return asyncio.run(draft(Candidate(goal, split, heldout, seed), GrammarWriter(), origin))


async def making(
    source: QuerySource,
    walk: WalkQueries,
    origin: Origin,
    unseen: UnseenApps = UnseenApps(),
    seed: int = 0,
    environment: EnvironmentSpec = SimulatedSpec(),
) -> NewQueries:
    """The queries of one source, walked by a function."""
    queries = QuerySet([GrammarWriter()], origin)
    await queries.take(await source.candidates(SourceContext(environment, unseen, seed, origin)), walk)
    return queries.without_leaks(unseen.heldout)


def made_by(
    source: QuerySource, walk: WalkQueries, origin: Origin, unseen: UnseenApps = UnseenApps(), seed: int = 0
) -> NewQueries:
    return asyncio.run(making(source, walk, origin, unseen, seed))


async def passes(queries: Sequence[Query]) -> NewQueries:
    """A walk that every query passes."""
    return NewQueries(tuple(queries))
