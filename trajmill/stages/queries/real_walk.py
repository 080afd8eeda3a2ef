"""Walks the reference path of a query in the environment of the run (paper 6.2, step 5, in real programs)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from trajmill.schemas.actions import Terminate, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source
from trajmill.stages.agents.pathway_walk import PathwayPosition, next_pathway_move
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.environments.screen_goal import with_checks
from trajmill.stages.environments.tasks import bare_query

PASSED = "passed"
DONE_AT_START = "the goal is met before anything was done"
_SEED = 0
_TRIES = 2
"""Tries of a query on fresh environments, where an environment failed, which says nothing about the query."""

Trial = Callable[[Environment, Query], Awaitable[str | None]]
"""Tries a query in an environment and says in one line why it is refused; None if it passed."""


class WalkedQueries(NamedTuple):
    """Queries that were walked."""

    queries: tuple[Query, ...]
    """Queries whose path meets the goal, and whose goal is not met before the first action."""
    failures: tuple[Failure, ...]
    """The others, with the reason."""


class _WalkOutcome(NamedTuple):
    reason: str | None
    """Why the query was refused; None if it passed."""
    failure_class: FailureClass

    @property
    def refuses(self) -> bool:
        """Whether the query itself is wrong."""
        return self.reason is not None and self.failure_class is FailureClass.TASK


async def walk_all(
    factory: EnvironmentFactory, queries: Sequence[Query], stage: str, origin: Origin, instances: int = 1
) -> WalkedQueries:
    """Walk queries in a few environments; an environment that fails is replaced.

    Args:
        factory: makes the environments; it is left open.
        queries: the queries to walk; those that pass keep their order.
        stage: name of the stage on the failures.
        origin: common columns of the failures.
        instances: environments that work at the same time.
    """
    outcomes = await _try_all(factory, queries, _walk_or_again, instances)
    walked = [(query, outcomes[query.query_id]) for query in queries]
    return WalkedQueries(
        tuple(query.model_copy(update={"validation": PASSED}) for query, outcome in walked if outcome.reason is None),
        tuple(_failure(query, outcome, stage, origin) for query, outcome in walked if outcome.reason is not None),
    )


async def check_starts(
    factory: EnvironmentFactory, queries: Sequence[Query], stage: str, origin: Origin, instances: int = 1
) -> WalkedQueries:
    """Refuse the queries whose goal is met before anything was done, and those whose start state or goal is malformed.

    An environment that fails otherwise says nothing about the query, which is kept. Takes the arguments of `walk_all`.
    """
    outcomes = await _try_all(factory, queries, _done_at_start, instances)
    tried = [(query, outcomes[query.query_id]) for query in queries]
    kept = tuple(query for query, outcome in tried if not outcome.refuses)
    return WalkedQueries(
        kept, tuple(_failure(query, outcome, stage, origin) for query, outcome in tried if outcome.refuses)
    )


async def walk(environment: Environment, query: Query) -> str | None:
    """Walk a query's path in an environment; None if it meets the goal, else the reason why not, in one line.

    Raises:
        EnvironmentFailure: the environment failed, which says nothing about the query.
    """
    checked = with_checks(environment, query)
    observation = await checked.reset(query, _SEED)
    if await checked.score() == 1.0:
        return DONE_AT_START
    position, steps = PathwayPosition(), 0
    # A program that is slow to show a target costs waits, which the walk itself bounds, and no step.
    while steps < query.max_steps:
        action, position = next_pathway_move(query.path, query.platform, observation, position)
        steps += not isinstance(action, Wait)
        observation = await checked.step(action)
        if isinstance(action, Terminate):
            if action.status == "failure":
                lost = query.path[min(position.step, len(query.path) - 1)]
                return f"the reference path is lost: cannot {lost.operation} {lost.target or lost.text}"
            return None if await checked.score() == 1.0 else "the reference path does not meet the goal check"
    return f"the reference path is not done after {query.max_steps} steps"


async def _walk_or_again(environment: Environment, query: Query) -> str | None:
    """Walk a path, and once more if that failed: a program may leave elements out of its tree until it starts anew."""
    reason = await walk(environment, query)
    return reason if reason in (None, DONE_AT_START) else await walk(environment, query)


async def screen_after(
    factory: EnvironmentFactory, platform: Platform, start_state: str, path: tuple[PathStep, ...], origin: Origin
) -> Observation:
    """The screen after some steps from a start state, in an environment of its own.

    Raises:
        EnvironmentFailure: the environment failed, or an element of the steps never shows (class `task`).
    """
    query = bare_query(platform, "start", start_state, Source.ATOMIC, origin, "screen")
    whole = (*path, PathStep(page="", operation="finish", target=""))
    environment = await factory()
    try:
        observation = await environment.reset(query, _SEED)
        action, position = next_pathway_move(whole, platform, observation, PathwayPosition())
        while not isinstance(action, Terminate):
            observation = await environment.step(action)
            action, position = next_pathway_move(whole, platform, observation, position)
        if action.status == "failure":
            lost = whole[min(position.step, len(path))]
            raise EnvironmentFailure(f"cannot {lost.operation} {lost.target or lost.text}", FailureClass.TASK)
        return observation
    finally:
        await _close(environment)


async def _done_at_start(environment: Environment, query: Query) -> str | None:
    checked = with_checks(environment, query)
    await checked.reset(query, _SEED)
    return DONE_AT_START if await checked.score() == 1.0 else None


async def _try_all(
    factory: EnvironmentFactory, queries: Sequence[Query], trial: Trial, instances: int
) -> dict[str, _WalkOutcome]:
    """The outcome of a trial of each query, by query id."""
    outcomes: dict[str, _WalkOutcome] = {}
    waiting = iter(queries)
    async with asyncio.TaskGroup() as group:
        for _ in range(min(instances, len(queries))):
            group.create_task(_try_waiting(factory, waiting, trial, outcomes))
    return outcomes


async def _try_waiting(
    factory: EnvironmentFactory, waiting: Iterator[Query], trial: Trial, outcomes: dict[str, _WalkOutcome]
) -> None:
    environment: Environment | None = None
    try:
        for query in waiting:
            for _ in range(_TRIES):
                try:
                    environment = environment or await factory()
                    outcomes[query.query_id] = _WalkOutcome(await trial(environment, query), FailureClass.TASK)
                except EnvironmentFailure as error:
                    outcomes[query.query_id] = _WalkOutcome(str(error), error.failure_class)
                    broken, environment = environment, None
                    await _close(broken)
                if outcomes[query.query_id].failure_class is FailureClass.TASK:
                    break
    finally:
        await _close(environment)


async def _close(environment: Environment | None) -> None:
    if environment is not None:
        # An environment that has failed may fail again while it is closed.
        with suppress(EnvironmentFailure):
            await environment.close()


def _failure(query: Query, outcome: _WalkOutcome, stage: str, origin: Origin) -> Failure:
    return Failure(
        stage=stage,
        input_id=query.query_id,
        failure_class=outcome.failure_class,
        message=f"{query.task}: {outcome.reason}: {query.instruction}",
        attempts=1,
        **origin.common(made_by=query.made_by),
    )
