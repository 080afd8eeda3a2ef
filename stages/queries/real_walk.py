"""Step 5 in real programs (paper 6.2): the reference path of a query is walked where its episodes will happen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from schemas.actions import Terminate
from schemas.errors import EnvironmentFailure, FailureClass
from schemas.failure import Failure
from schemas.query import Query
from schemas.record import Origin
from stages.agents.element_walk import WalkPosition, next_move
from stages.environments.base import Environment, EnvironmentFactory
from stages.environments.screen_goal import checked_on_screen

PASSED = "passed"
_SEED = 0


class Checked(NamedTuple):
    """Queries that were walked."""

    queries: tuple[Query, ...]
    """Those whose path meets their goal, which an agent that does nothing does not."""
    failures: tuple[Failure, ...]
    """The others, with the reason."""


async def walk_all(factory: EnvironmentFactory, queries: Sequence[Query], stage: str, origin: Origin) -> Checked:
    """Walk queries one after the other in one environment, which is replaced where it fails.

    Args:
        factory: makes the environment; it is left open.
        queries: to be tried.
        stage: stands on the failures.
        origin: common columns of the failures.
    """
    passed: list[Query] = []
    failures: list[Failure] = []
    async with _one_at_a_time(factory) as current:
        for query in queries:
            reason, blame = await _tried(current, query)
            if reason is None:
                passed.append(query.model_copy(update={"validation": PASSED}))
                continue
            common = origin.common(made_by=query.made_by)
            message = f"{query.task}: {reason}: {query.instruction}"
            failures.append(
                Failure(
                    stage=stage, input_id=query.query_id, failure_class=blame, message=message, attempts=1, **common
                )
            )
    return Checked(tuple(passed), tuple(failures))


async def walk(environment: Environment, query: Query) -> str | None:
    """Walk a query's path in an environment; None if it meets the goal, else the reason why not, in one line.

    Raises:
        EnvironmentFailure: the environment failed, which says nothing about the query.
    """
    checked = checked_on_screen(environment, query)
    observation = await checked.reset(query, _SEED)
    if await checked.score() == 1.0:
        return "the goal is met before anything was done"
    position = WalkPosition()
    for _ in range(query.max_steps):
        action, position = next_move(query.path, observation, position)
        observation = await checked.step(action)
        if isinstance(action, Terminate):
            if action.status == "failure":
                lost = query.path[min(position.step, len(query.path) - 1)]
                return f"the reference path is lost: cannot {lost.operation} {lost.target or lost.text}"
            return None if await checked.score() == 1.0 else "the reference path does not meet the goal check"
    return f"the reference path is not done after {query.max_steps} steps"


@dataclass
class _Current:
    factory: EnvironmentFactory
    environment: Environment | None = None

    async def get(self) -> Environment:
        if self.environment is None:
            self.environment = await self.factory()
        return self.environment

    async def drop(self) -> None:
        environment, self.environment = self.environment, None
        if environment is not None:
            # One that has failed may fail again while it is closed.
            with suppress(EnvironmentFailure):
                await environment.close()


@asynccontextmanager
async def _one_at_a_time(factory: EnvironmentFactory) -> AsyncIterator[_Current]:
    current = _Current(factory)
    try:
        yield current
    finally:
        await current.drop()


async def _tried(current: _Current, query: Query) -> tuple[str | None, FailureClass]:
    try:
        return await walk(await current.get(), query), FailureClass.TASK
    except EnvironmentFailure as error:
        await current.drop()
        return str(error), error.failure_class
