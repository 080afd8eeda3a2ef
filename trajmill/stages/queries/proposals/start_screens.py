"""Reads the first screen of each starting point, from which tasks are proposed."""

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
from trajmill.stages.queries.proposals.propose import STAGE, proposed_query
from trajmill.stages.queries.proposals.starting_points import StartingPoint
from trajmill.stages.rollout.base import Limits


class StartScreens(NamedTuple):
    """The first screens of starting points."""

    screens: dict[str, Observation]
    """By id of the starting point; one whose start state cannot be reached is missing."""
    failures: tuple[Failure, ...]


async def start_screens(
    starts: Sequence[StartingPoint],
    factory: Callable[[Platform], EnvironmentFactory],
    seed: Callable[[StartingPoint], int],
    limits: Limits,
    origin: Origin,
    at_once: int = 1,
) -> StartScreens:
    """Reset an environment to each starting point and read its first screen.

    An environment that fails is replaced, `limits.environment_tries` times in all.

    Args:
        starts: starting points without screens.
        factory: makes the environments of a platform.
        seed: gives the seed of the reset to a starting point.
        limits: bounds on the seconds of a reset and on the number of tries.
        origin: common columns of failures.
        at_once: environments of a platform that are open at the same time.
    """
    pools = {platform: EnvironmentPool(factory(platform), at_once) for platform in {each.platform for each in starts}}
    try:
        readings = (_first_screen(start, pools[start.platform], seed(start), limits, origin) for start in starts)
        seen = dict(zip([start.id for start in starts], await asyncio.gather(*readings), strict=True))
    finally:
        for pool in pools.values():
            await pool.close()
    return StartScreens(
        {start: screen for start, screen in seen.items() if isinstance(screen, Observation)},
        tuple(failure for failure in seen.values() if isinstance(failure, Failure)),
    )


async def _first_screen(
    start: StartingPoint, pool: EnvironmentPool, seed: int, limits: Limits, origin: Origin
) -> Observation | Failure:
    tried, reason = 0, EnvironmentFailure("no environment is to be tried", FailureClass.SETUP)
    while tried < limits.environment_tries:
        tried += 1
        try:
            async with pool.lease() as environment:
                return await _reset(start, environment, seed, limits.seconds, origin)
        except EnvironmentFailure as error:
            reason = error
    return Failure(
        stage=STAGE,
        input_id=start.id,
        failure_class=reason.failure_class,
        message=f"{', '.join(start.apps) or start.platform}: the start state cannot be reached: {reason}",
        attempts=tried,
        **origin.common(made_by=STAGE),
    )


async def _reset(
    start: StartingPoint, environment: Environment, seed: int, seconds: float, origin: Origin
) -> Observation:
    if environment.platform is not start.platform:
        text = f"its platform is {start.platform}, the environment is a {environment.platform}"
        raise EnvironmentFailure(text, FailureClass.SETUP)
    try:
        async with asyncio.timeout(seconds):
            return await environment.reset(proposed_query(start, "", 1, environment.name, origin), seed)
    except TimeoutError:
        raise EnvironmentFailure(f"it took longer than {seconds:g} s") from None
