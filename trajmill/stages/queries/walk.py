"""Walk the reference paths of queries in the environment of the run (GUI-Owl 6.2, step 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

from trajmill.schemas.actions import Action, Terminate, Wait, ends_episode
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import PASSED, PathStep, Platform, Query
from trajmill.stages.agents.reference import next_pathway_move
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.environments.screen_goal import with_checks
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.reference_path import GIVE_UP, WalkPosition
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.base import NewQueries, failure

DONE_AT_START = "the goal is met before anything was done"
FINISH = PathStep(page="", operation="finish", target="")
TRAINING_PROFILES = 6
"""Number of simulated device profiles that training has; the query id decides which one a walk uses."""
_TRIES = 2
"""Tries of a query on fresh environments if an environment fails, which is no fault of the query."""


Act = Callable[[Action], Awaitable[Observation]]
Trial = Callable[[Environment, Query], Awaitable[str | None]]
"""Tries a query in an environment; returns why it fails."""


class QueryWalker:
    """Tries queries in a few environments of their platform at a time; one that fails is replaced."""

    def __init__(self, factory: Callable[[Platform], EnvironmentFactory], instances: int, origin: Origin) -> None:
        self._factory, self._instances, self._origin = factory, instances, origin
        self._factories: dict[Platform, EnvironmentFactory] = {}

    async def walk(self, queries: Sequence[Query]) -> NewQueries:
        async def walk_twice(environment: Environment, query: Query) -> str | None:
            # A program may leave elements out of its tree until it starts anew.
            reason = await walk(environment, query)
            is_final = reason in (None, DONE_AT_START) or isinstance(environment, SimulatedEnvironment)
            return reason if is_final else await walk(environment, query)

        failed = await self.failures(queries, walk_twice)
        passed = (query.model_copy(update={"validation": PASSED}) for query in queries if query.query_id not in failed)
        return NewQueries(tuple(passed), tuple(failed.values()))

    async def failures(self, queries: Sequence[Query], trial: Trial) -> dict[str, Failure]:
        """Return the failures by query id, in order; raises EnvironmentFailure if the server of any stays away."""
        failed: dict[str, Failure] = {}
        for platform in dict.fromkeys(query.platform for query in queries):
            if platform not in self._factories:
                self._factories[platform] = self._factory(platform)
            of_platform = [query for query in queries if query.platform is platform]
            waiting = iter(of_platform)
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self._instances, len(of_platform))):
                        group.create_task(self._try_waiting(self._factories[platform], waiting, trial, failed))
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
        return {query.query_id: failed[query.query_id] for query in queries if query.query_id in failed}

    async def _try_waiting(
        self, factory: EnvironmentFactory, waiting: Iterator[Query], trial: Trial, failed: dict[str, Failure]
    ) -> None:
        environment: Environment | None = None
        try:
            for query in waiting:
                for _ in range(_TRIES):
                    failure_class = FailureClass.TASK
                    try:
                        environment = environment or await factory()
                        reason = await trial(environment, query)
                    except EnvironmentFailure as error:
                        reason, failure_class = str(error), error.failure_class
                        broken, environment = environment, None
                        await close_quietly(broken)
                        if failure_class is FailureClass.UNREACHABLE:
                            raise
                    if failure_class is FailureClass.TASK:
                        break
                if reason is not None:
                    message = f"{query.task}: {reason}: {query.instruction}"
                    failed[query.query_id] = failure(
                        query.query_id, message, self._origin, query.made_by, failure_class
                    )
        finally:
            await close_quietly(environment)

    async def close(self) -> None:
        for factory in self._factories.values():
            await factory.close()


async def own_queries(environment: EnvironmentSpec, seed: int, instances: int, origin: Origin) -> NewQueries:
    """Return an environment's own queries; a user's task is refused if its goal holds at the start or is malformed.

    A query is kept if its environment fails otherwise. Raises BadInputError for a wrong file or name of a task, and
    EnvironmentFailure if something that the tasks need is not installed or does not start.
    """

    async def done_at_start(tried: Environment, query: Query) -> str | None:
        checked = with_checks(tried, query)
        await checked.reset(query, 0)
        return DONE_AT_START if await checked.score() == 1.0 else None

    made, walker = await environment.own_queries(seed, origin), QueryWalker(environment.factory, instances, origin)
    try:
        with_goal = [query for query in made.queries if made.untried and query.goal != "{}"]
        failed = await walker.failures(with_goal, done_at_start)
    finally:
        await walker.close()
    refused = {of: each for of, each in failed.items() if each.failure_class is FailureClass.TASK}
    by_platform = sorted(made.queries, key=lambda query: list(Platform).index(query.platform))
    kept = tuple(query for query in by_platform if query.query_id not in refused)
    return NewQueries(kept, (*made.failures, *refused.values()))


async def walk(environment: Environment, query: Query) -> str | None:
    """Walk a query's path; return None if it meets the goal, else the reason. Raises EnvironmentFailure."""
    checked = with_checks(environment, query)
    observation = await checked.reset(query, int(query.query_id, 16) % TRAINING_PROFILES)
    if await checked.score() == 1.0:
        return DONE_AT_START
    position, steps = WalkPosition(), 0
    # Waits for a slow program, which the walk itself bounds, are no steps.
    while steps < query.max_steps:
        action, position = next_pathway_move(query.path, query.platform, observation, position)
        steps += not isinstance(action, Wait)
        observation = await checked.step(action)
        if not ends_episode(action):
            continue
        lost = query.path[min(position.step, len(query.path) - 1)]
        if action == Terminate(status="failure") and lost.operation != GIVE_UP:
            place = f" on {lost.page}" if lost.page else ""
            return f"the reference path is lost{place}: {_cannot(lost)}"
        score = await checked.score()
        if score == 1.0:
            return None
        if score is None:
            return "there is no goal check"
        found = environment.differences_now() if isinstance(environment, SimulatedEnvironment) else ()
        different = f" ({', '.join(found)})" if found else ""
        return f"the reference path does not meet the goal check{different}"
    return f"the reference path is not done after {query.max_steps} steps"


async def follow(path: Sequence[PathStep], platform: Platform, observation: Observation, act: Act) -> Observation:
    """Carry out the steps of a path; raises EnvironmentFailure (class `task`) if an element never shows."""
    whole, position = (*path, FINISH), WalkPosition()
    while True:
        action, position = next_pathway_move(whole, platform, observation, position)
        if isinstance(action, Terminate):
            break
        observation = await act(action)
    if action.status == "failure":
        raise EnvironmentFailure(_cannot(whole[min(position.step, len(path))]), FailureClass.TASK)
    return observation


def _cannot(step: PathStep) -> str:
    return f"cannot {step.operation} {step.target or step.text}".rstrip()


async def close_quietly(environment: Environment | None) -> None:
    if environment is not None:
        with suppress(EnvironmentFailure):
            await environment.close()
