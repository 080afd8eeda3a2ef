"""Episodes in the compiled app, through the pool."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

import pytest
from playwright.async_api import Error

from tests.stages.environments.simulated.worlds import paths_of, task_query
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.trajectory import Purpose, StopReason
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.simulated.world import World, shared_world
from trajmill.stages.environments.webapp.environment import WebAppFactory
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts

pytestmark = pytest.mark.browser
ORIGIN = Origin(round=1, run_id="run", code_version="test")


def queries(world: World, platform: Platform, count: int) -> list[Query]:
    tasks = [task for task in world.tasks() if task.platform is platform]
    made = []
    for number, task in enumerate(random.Random(1).sample(tasks, count)):
        rng = random.Random(number)
        values = {slot.spec.name: rng.choice(slot.values) for slot in task.slots if slot.values}
        query = task_query(task, next(paths_of(task)), values)
        made.append(query.model_copy(update={"query_id": f"q{number}", "max_steps": 60}))
    return made


def roll_out(wanted: Sequence[Query], factory: WebAppFactory, crash_after: int | None = None) -> list[FinishedAttempt]:
    done: list[FinishedAttempt] = []

    async def record(rollout: FinishedAttempt) -> None:
        done.append(rollout)
        if len(done) == crash_after:
            await crash(factory)

    work = [Attempt(query=query, purpose=Purpose.REFERENCE, attempt=0, seed=3) for query in wanted]
    limits = Limits(seconds=120, tokens=1000, environment_tries=3)
    asyncio.run(run_attempts(work, ReferenceAgent, factory, limits, ORIGIN, record, 2))
    return done


async def crash(factory: WebAppFactory) -> None:
    browser = (await factory()).page.context.browser
    assert browser is not None
    session = await browser.new_browser_cdp_session()
    with suppress(Error):
        await session.send("Browser.crash")


@pytest.mark.parametrize(("platform", "count"), [(Platform.PHONE, 10), (Platform.DESKTOP, 4)])
def test_the_reference_agent_does_verified_queries(platform: Platform, count: int) -> None:
    world = shared_world(())
    done = roll_out(queries(world, platform, count), WebAppFactory(world, platform))
    assert len(done) == count
    for rollout in done:
        trajectory = rollout.episode.trajectory
        assert (trajectory.stop_reason, trajectory.reward) == (StopReason.AGENT_DONE, 1.0), trajectory.query_id
        assert trajectory.environment == "webapp"


def test_a_browser_that_crashes_is_replaced_and_the_round_finishes() -> None:
    world = shared_world(())
    done = roll_out(queries(world, Platform.PHONE, 4), WebAppFactory(world, Platform.PHONE), crash_after=1)
    assert [rollout.episode.trajectory.reward for rollout in done] == [1.0] * 4
