"""A worker: many episodes at once over a pool of environments, each finished one recorded before the next starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

from schemas.errors import EnvironmentFailure, FailureClass
from schemas.record import Origin
from schemas.trajectory import StopReason
from stages.environments.base import EnvironmentFactory
from stages.environments.pool import EnvironmentPool
from stages.rollout.base import AgentMaker, Attempt, Limits, Recorder, Rollout
from stages.rollout.episode import run_episode, void_rollout

_RETRIED = (FailureClass.ENVIRONMENT, FailureClass.SETUP)


class _UnfitEnvironment(Exception):
    """Carries a rollout out of a lease whose environment must not be used again."""

    def __init__(self, rollout: Rollout) -> None:
        self.rollout = rollout


async def run_attempts(
    attempts: Sequence[Attempt],
    make_agent: AgentMaker,
    factory: EnvironmentFactory,
    limits: Limits,
    origin: Origin,
    record: Recorder,
    concurrency: int,
) -> None:
    """Roll out all attempts, `concurrency` at a time.

    `record` gets each finished attempt, void ones included, exactly once, in order of finishing. An environment
    failure is retried on a fresh instance, `limits.environment_tries` times in all. What `record` raises ends all
    attempts and is raised.
    """
    pool = EnvironmentPool(factory, concurrency)
    queue = iter(attempts)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(attempts))):
                group.create_task(_work_off(queue, make_agent, pool, limits, origin, record))
    except ExceptionGroup as errors:
        # They have one cause, e.g. a full disk, and each task may have met it.
        raise errors.exceptions[0] from None
    finally:
        await pool.close()


async def _work_off(
    queue: Iterator[Attempt],
    make_agent: AgentMaker,
    pool: EnvironmentPool,
    limits: Limits,
    origin: Origin,
    record: Recorder,
) -> None:
    for attempt in queue:
        await record(await _with_retries(attempt, make_agent, pool, limits, origin))


async def _with_retries(
    attempt: Attempt, make_agent: AgentMaker, pool: EnvironmentPool, limits: Limits, origin: Origin
) -> Rollout:
    agent = make_agent(attempt.query)
    for tried in range(1, limits.environment_tries + 1):
        try:
            async with pool.lease() as environment:
                return _checked(await run_episode(attempt, agent, environment, limits, origin))
        except _UnfitEnvironment as unfit:
            rollout = unfit.rollout
            if rollout.failure is None:
                return rollout
        except EnvironmentFailure as error:
            rollout = void_rollout(attempt, agent, origin, error)
        if rollout.failure is not None:
            rollout = replace(rollout, failure=rollout.failure.model_copy(update={"attempts": tried}))
    return rollout


def _checked(rollout: Rollout) -> Rollout:
    trajectory = rollout.episode.trajectory
    if trajectory.failure_class in _RETRIED or trajectory.stop_reason is StopReason.TIME_LIMIT:
        raise _UnfitEnvironment(rollout)
    return rollout
