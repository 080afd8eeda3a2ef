from __future__ import annotations

import asyncio

from tests.stages.rollout.toy import ORIGIN, ToyAgent, ToyEnvironment, ToyFactory, press_and_finish, toy_query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts


def work(factory: ToyFactory, attempts: int, concurrency: int, limits: Limits | None = None) -> list[FinishedAttempt]:
    done: list[FinishedAttempt] = []

    async def record(rollout: FinishedAttempt) -> None:
        done.append(rollout)

    agent = ToyAgent(press_and_finish)
    plan = [Attempt(toy_query(f"q{number}"), Purpose.TRAIN, 0, number) for number in range(attempts)]
    asyncio.run(run_attempts(plan, lambda query: agent, factory, limits or Limits(), ORIGIN, record, concurrency))
    return done


def test_every_attempt_is_recorded_once_with_few_environments() -> None:
    factory = ToyFactory()
    done = work(factory, attempts=20, concurrency=4)
    assert len({rollout.episode.trajectory.trajectory_id for rollout in done}) == len(done) == 20
    assert len(factory.made) <= 4 and all(environment.closed for environment in factory.made)


def test_an_environment_that_hung_is_not_used_again() -> None:
    hung = ToyEnvironment(hangs=True)
    factory = ToyFactory(kinds=[hung])
    work(factory, attempts=2, concurrency=1, limits=Limits(seconds=0.05))
    assert hung.closed and len(factory.made) == 2
