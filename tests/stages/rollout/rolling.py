from collections.abc import Callable, Iterable

from tests.stages.rollout.toy import ORIGIN
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import Agent
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts


async def rolled_out(
    queries: Iterable[Query],
    make_agent: Callable[[Query], Agent],
    factory: EnvironmentFactory,
    limits: Limits = Limits(),
    concurrency: int = 1,
) -> list[FinishedAttempt]:
    done: list[FinishedAttempt] = []

    async def record(rollout: FinishedAttempt) -> None:
        done.append(rollout)

    attempts = [Attempt(query, Purpose.TRAIN, number, number) for number, query in enumerate(queries)]
    await run_attempts(attempts, make_agent, factory, limits, ORIGIN, record, concurrency)
    return done
