from __future__ import annotations

import asyncio

import pytest

from tests.stages.environments.android.playing import settings_for
from tests.stages.environments.android.stand_in.phone import Faults, Phone
from tests.stages.environments.android.stand_in.server import AdbServer
from tests.stages.environments.android.stand_in.tasks import ORIGIN, task_line
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.trajectory import Purpose, StopReason
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.android.environment import AndroidFactory
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.environments.tasks import query_of
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts


@pytest.fixture
def phones(world: World) -> list[Phone]:
    """Phones whose apps often show a message when they are opened."""
    return [Phone("emulator-5554", world, popup=0.5), Phone("emulator-5556", world, popup=0.5)]


def attempts(world: World, queries: list[Query]) -> list[Attempt]:
    tasks = [query_of(task_line(world, query, seed), Platform.PHONE, ORIGIN) for seed, query in enumerate(queries)]
    return [Attempt(query=task, purpose=Purpose.REFERENCE, attempt=0, seed=0) for task in tasks]


def roll_out(work: list[Attempt], factory: AndroidFactory, concurrency: int) -> list[FinishedAttempt]:
    done: list[FinishedAttempt] = []

    async def record(rollout: FinishedAttempt) -> None:
        done.append(rollout)

    limits = Limits(seconds=60, tokens=1000, environment_tries=3)
    asyncio.run(run_attempts(work, ReferenceAgent, factory, limits, ORIGIN, record, concurrency))
    return done


@pytest.mark.slow
def test_the_reference_agent_does_ten_verified_queries_on_two_devices(
    world: World, queries: list[Query], phones: list[Phone], server: AdbServer
) -> None:
    work = attempts(world, queries)
    done = roll_out(work, AndroidFactory(settings_for(server)), concurrency=2)
    assert len(done) == 10
    for rollout in done:
        trajectory = rollout.episode.trajectory
        assert (trajectory.stop_reason, trajectory.reward) == (StopReason.AGENT_DONE, 1.0)
        assert trajectory.environment == "android"
        assert len({step.screen_after for step in rollout.episode.steps}) > 1
    assert all(phone.ran for phone in phones)


def test_where_every_device_fails_no_attempt_gets_a_reward(
    world: World, queries: list[Query], phones: list[Phone], server: AdbServer
) -> None:
    for phone in phones:
        phone.faults = Faults(blank_screenshot=True)
    done = roll_out(attempts(world, queries[:2]), AndroidFactory(settings_for(server)), concurrency=2)
    trajectories = [rollout.episode.trajectory for rollout in done]
    assert [(each.failure_class, each.reward) for each in trajectories] == [(FailureClass.SETUP, None)] * 2
    assert [rollout.failure.attempts for rollout in done if rollout.failure] == [3, 3]
