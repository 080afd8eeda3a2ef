"""Puts environments under load: many at once, and many episodes one after another."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, TypeVar

from benchmarks.process_tree import tree_bytes, tree_cpu_seconds
from trajmill.schemas.actions import Action
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import AgentMaker
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.environments.pool.pool import EnvironmentLimits, LeasedEnvironment
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts

T = TypeVar("T")

ORIGIN = Origin(round=1, run_id="benchmark", code_version="benchmark")
Move = Callable[[Observation, random.Random], Action]
"""Chooses what to do next: something that goes on for ever without ending the episode."""
_RESETS = 8
_LIMITS = Limits(seconds=300.0)


class Bounds(NamedTuple):
    """When a measurement ends; what comes first counts."""

    seconds: float
    steps: int = sys.maxsize
    """Of each instance."""


class _Ready(NamedTuple):
    """An instance that has been reset."""

    environment: Environment
    seen: Observation
    reset_seconds: list[float]


class Measurement(NamedTuple):
    """What so many instances do and cost."""

    reset_seconds: float
    """Median, all instances at once; the first reset, which may start a program, does not count."""
    steps_per_second: float
    """All instances together."""
    bytes_per_instance: int
    """Growth of the proportional set size of this process and all that descends from it."""
    cpu_seconds_per_step: float
    """Of the same processes."""


class Tally(NamedTuple):
    """What came of episodes."""

    rewarded: int
    failed_tries: Counter[str]
    """By failure class; an environment failure is tried again."""
    lost: int
    """Episodes that stayed void after all tries."""
    seconds: float


async def measure(factory: EnvironmentFactory, query: Query, instances: int, bounds: Bounds, move: Move) -> Measurement:
    """Start instances, reset them all, step in them all.

    Raises:
        EnvironmentFailure: one of them failed.
    """
    before = tree_bytes()
    async with AsyncExitStack() as started:
        started.push_async_callback(factory.close)
        environments = await _start(factory, instances, started)
        ready = await _together(_reset(one, query, max(1, _RESETS // instances)) for one in environments)
        start, used = time.perf_counter(), tree_cpu_seconds()
        steps = sum(await _together(_steps(one, bounds, move, seed) for seed, one in enumerate(ready)))
        seconds, used = time.perf_counter() - start, tree_cpu_seconds() - used
        grown = tree_bytes() - before
    median = statistics.median(each for one in ready for each in one.reset_seconds)
    return Measurement(median, steps / seconds, max(0, grown) // instances, used / steps)


async def count_failures(
    factory: EnvironmentFactory, queries: Sequence[Query], make_agent: AgentMaker, episodes: int, instances: int
) -> Tally:
    """Roll out so many episodes over the pool, as a round does.

    Failures, and annotated paths that did not lead to their goal, are told on standard error as they come.
    """
    attempts = [
        Attempt(queries[number % len(queries)], Purpose.REFERENCE, number // len(queries), seed=number)
        for number in range(episodes)
    ]
    failed, outcomes = Counter[str](), Counter[str]()
    start = time.perf_counter()

    async def record(rollout: FinishedAttempt) -> None:
        trajectory = rollout.episode.trajectory
        for failure in (rollout.earlier_failure, rollout.failure):
            if failure is not None:
                failed[failure.failure_class] += failure.attempts
                print(f"{trajectory.environment}, {rollout.episode.query.task}: {failure.message}", file=sys.stderr)
        if rollout.failure is None and trajectory.agent == "reference" and trajectory.reward != 1.0:
            words = f"{trajectory.stop_reason} after {trajectory.steps} steps, reward {trajectory.reward}"
            print(f"{trajectory.environment}, {rollout.episode.query.task}: {words}", file=sys.stderr)
        outcomes["lost"] += rollout.failure is not None
        outcomes["rewarded"] += trajectory.reward == 1.0

    await run_attempts(attempts, make_agent, factory, _LIMITS, ORIGIN, record, instances)
    return Tally(outcomes["rewarded"], failed, outcomes["lost"], time.perf_counter() - start)


async def _start(factory: EnvironmentFactory, instances: int, started: AsyncExitStack) -> list[LeasedEnvironment]:
    """No more starts at once than there are processors."""
    places = asyncio.Semaphore(os.cpu_count() or 1)

    async def start() -> LeasedEnvironment:
        async with places:
            environment = await factory()
            started.push_async_callback(environment.close)
            return LeasedEnvironment(environment, EnvironmentLimits())

    return await _together(start() for _ in range(instances))


async def _reset(environment: Environment, query: Query, count: int) -> _Ready:
    seen, times = await environment.reset(query, 0), []
    for number in range(count):
        start = time.perf_counter()
        seen = await environment.reset(query, number)
        times.append(time.perf_counter() - start)
    return _Ready(environment, seen, times)


async def _steps(ready: _Ready, bounds: Bounds, move: Move, seed: int) -> int:
    chance, seen = random.Random(seed), ready.seen
    start, done = time.perf_counter(), 0
    while done < bounds.steps and time.perf_counter() - start < bounds.seconds:
        seen = await ready.environment.step(move(seen, chance))
        done += 1
        # A simulated environment never waits; the others must have their turn.
        await asyncio.sleep(0)
    return done


async def _together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results; the first failure ends the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
