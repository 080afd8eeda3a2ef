"""Brings environments into the start states of grounds and looks at them: what is there to propose tasks from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.queries.proposals.propose import STAGE, query_on
from trajmill.stages.queries.proposals.starting_points import Ground
from trajmill.stages.rollout.base import Limits


class Started(NamedTuple):
    """What the grounds start with."""

    screens: dict[str, Observation]
    """By id of the ground; one whose start state cannot be reached is not here."""
    failures: tuple[Failure, ...]


async def start_screens(
    grounds: Sequence[Ground],
    factory: Callable[[Platform], EnvironmentFactory],
    seed: Callable[[Ground], int],
    limits: Limits,
    origin: Origin,
    at_once: int = 1,
) -> Started:
    """The first screens of episodes that begin as the grounds do.

    An environment that fails is replaced, `limits.environment_tries` times in all.

    Args:
        grounds: where to begin; without screens.
        factory: makes the environments of a platform.
        seed: of the reset of a ground.
        limits: how long a reset may take, and how many are tried.
        origin: common columns of failures.
        at_once: environments of a platform under way at the same time.
    """
    pools = {platform: EnvironmentPool(factory(platform), at_once) for platform in {each.platform for each in grounds}}
    try:
        looks = (_look(ground, pools[ground.platform], seed(ground), limits, origin) for ground in grounds)
        seen = dict(zip([ground.id for ground in grounds], await asyncio.gather(*looks), strict=True))
    finally:
        for pool in pools.values():
            await pool.close()
    return Started(
        {ground: screen for ground, screen in seen.items() if isinstance(screen, Observation)},
        tuple(failure for failure in seen.values() if isinstance(failure, Failure)),
    )


async def _look(
    ground: Ground, pool: EnvironmentPool, seed: int, limits: Limits, origin: Origin
) -> Observation | Failure:
    tried, reason = 0, EnvironmentFailure("no environment is to be tried", FailureClass.SETUP)
    while tried < limits.environment_tries:
        tried += 1
        try:
            async with pool.lease() as environment:
                return await _reset(ground, environment, seed, limits.seconds, origin)
        except EnvironmentFailure as error:
            reason = error
    return Failure(
        stage=STAGE,
        input_id=ground.id,
        failure_class=reason.failure_class,
        message=f"{', '.join(ground.apps) or ground.platform}: the start state cannot be reached: {reason}",
        attempts=tried,
        **origin.common(made_by=STAGE),
    )


async def _reset(ground: Ground, environment: Environment, seed: int, seconds: float, origin: Origin) -> Observation:
    if environment.platform is not ground.platform:
        text = f"its platform is {ground.platform}, the environment is a {environment.platform}"
        raise EnvironmentFailure(text, FailureClass.SETUP)
    try:
        async with asyncio.timeout(seconds):
            return await environment.reset(query_on(ground, "", 1, environment.name, origin), seed)
    except TimeoutError:
        raise EnvironmentFailure(f"it took longer than {seconds:g} s") from None
