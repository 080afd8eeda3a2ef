"""Runs many episodes at the same time over a pool of environments."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from trajmill.schemas.errors import EnvironmentFailure, FailureClass, TrajmillError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.stages.agents.base import Agent, AgentMaker
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.rollout.base import (
    Attempt,
    FinishedAttempt,
    Limits,
    Recorder,
    RolloutSlot,
    SlotBoard,
    SlotState,
    TakeAttempt,
)
from trajmill.stages.rollout.branch import BranchPoints
from trajmill.stages.rollout.episode import run_episode, void_attempt

_RETRIED = (FailureClass.ENVIRONMENT, FailureClass.SETUP)


async def run_attempts(
    attempts: Sequence[Attempt] | TakeAttempt,
    make_agent: AgentMaker,
    factory: EnvironmentFactory,
    limits: Limits,
    origin: Origin,
    record: Recorder,
    concurrency: int,
    board: SlotBoard | None = None,
) -> None:
    """Run all attempts, `concurrency` at a time; the board shows what each waits for.

    A free slot takes the next attempt from the source; no slot waits for a slow episode elsewhere.
    `record` gets each finished attempt once, also void ones, in the order in which they finish. After an environment
    failure, the attempt is tried again on a fresh instance, at most `limits.environment_tries` times in total. An error
    of `record`, or a server of the environment that stays away, ends all attempts and is raised.
    """
    pool = EnvironmentPool(factory, concurrency, limits.environment)
    board, branches = board or SlotBoard(), BranchPoints()
    if isinstance(attempts, Sequence):
        concurrency, planned = min(concurrency, len(attempts)), iter(attempts)

    async def run_slot(slot: RolloutSlot) -> None:
        while attempt := next(planned, None) if isinstance(attempts, Sequence) else await attempts():
            failed: Failure | None = None
            for tried in range(1, limits.environment_tries + 1):
                finished = await try_once(attempt, make_agent(attempt.query), pool, limits, origin, slot, branches)
                if finished.failure is None or finished.failure.failure_class not in _RETRIED:
                    if failed:
                        note = f"{failed.message} (a fresh environment finished the attempt)"
                        failed = failed.model_copy(update={"message": note})
                    finished = replace(finished, earlier_failure=failed)
                    break
                failed = finished.failure.model_copy(update={"attempts": tried})
                finished = replace(finished, failure=failed)
            if finished.failure and finished.failure.failure_class is FailureClass.UNREACHABLE:
                # The attempt is not spent: the same command makes it when the server is back.
                raise TrajmillError(finished.failure.message)
            with slot.waiting(SlotState.STORING):
                await record(finished)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(run_slot(board.add()))
    except ExceptionGroup as errors:
        # The errors of all tasks have one cause, e.g. a full disk.
        raise errors.exceptions[0] from None
    finally:
        await pool.close()


async def try_once(
    attempt: Attempt,
    agent: Agent,
    pool: EnvironmentPool,
    limits: Limits,
    origin: Origin,
    slot: RolloutSlot | None = None,
    branches: BranchPoints | None = None,
) -> FinishedAttempt:
    """Roll out an attempt in an environment of the pool; it is void where none can be started."""
    slot = slot or RolloutSlot()
    slot.step, slot.instruction, slot.did, slot.screen = 0, attempt.query.instruction, "", None
    try:
        with slot.waiting(SlotState.INSTANCE):
            async with pool.lease() as environment:
                return await run_episode(attempt, agent, environment, limits, origin, slot, branches)
    except EnvironmentFailure as error:
        return void_attempt(attempt, agent, origin, error)
